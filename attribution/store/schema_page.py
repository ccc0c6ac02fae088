"""The reference page of the store: every table and column, made from `attribution.tables`."""

from __future__ import annotations

from attribution.tables import STORE_VERSION, TABLES

_HEAD = f"""\
<!-- Generated from attribution/tables.py by `python -m attribution.cli.reference`; edit that, not this page. -->

# The store

A store is a folder. Truth is append-only Parquet, one folder per table; `runs/` holds one manifest per commit unit, and a
file that no manifest names does not exist for readers. `recovery query` asks it through DuckDB, and any tool that reads
Parquet may.

Every table has two views: `diagnoses` shows the newest analysis of each attempt, `diagnoses_history` all of them; likewise
`templates` the newest text of each template, and `labels` the newest label of each field of an attempt, whatever analyses
followed. `attempt_id` joins the tables.

Many may read while others write. Writers commit one after the other, under a lock (`.lock`) that the kernel lets go when a
process dies; a run that was killed leaves whole units, and files that no manifest names, which `recovery store compact`
takes away.

This is version {STORE_VERSION} of the layout (`version.json`). Columns are added, never renamed or given another meaning: files without a
column read as null. A change that this rule does not allow raises the version; an older Recovery then refuses the store
and says so.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for name, columns in TABLES.items():
        rows = "".join(f"| `{c.name}` | {c.kind} | {c.doc.replace('|', ' or ')} |\n" for c in columns)
        parts.append(f"## {name}\n\n| column | kind | what it is |\n|---|---|---|\n{rows}")
    return "\n".join(parts)
