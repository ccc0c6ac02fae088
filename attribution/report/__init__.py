"""What people and programs are shown: console, JSON documents, HTML, metrics."""
