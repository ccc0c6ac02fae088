"""A read-only web view over a live store: pages without script, and a small JSON API."""
