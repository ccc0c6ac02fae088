"""The store: append-only Parquet is the truth, an in-memory DuckDB is the lens."""

from attribution.store.store import Store

__all__ = ["Store"]
