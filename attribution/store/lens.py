"""The lens: an in-memory DuckDB with views over the Parquet files of committed units. Nothing outside the store is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from attribution.model import StoreError
from attribution.tables import TABLES

if TYPE_CHECKING:
    import polars as pl

    from attribution.store.store import Store

_TYPES = {
    "str": "VARCHAR",
    "i64": "BIGINT",
    "f64": "DOUBLE",
    "bool": "BOOLEAN",
    "list[str]": "VARCHAR[]",
    "json": "VARCHAR",
}


class Lens:
    """One connection over one state of the store; use as a context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._con = duckdb.connect(":memory:")
        self._con.execute(f"set allowed_directories = ['{_quoted(str(store.path.resolve()))}/']")
        self._con.execute("set enable_external_access = false")
        files: dict[str, list[str]] = {name: [] for name in TABLES}
        for m in store.manifests():
            for f in m.files:
                table = f.split("/", 1)[0]
                if table in files:
                    files[table].append(str((store.path / f).resolve()))
        for name, paths in files.items():
            self._view(name, paths)

    def __enter__(self) -> Lens:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()

    def _view(self, name: str, paths: list[str]) -> None:
        columns = TABLES[name]
        if paths:
            listed = ", ".join(f"'{_quoted(p)}'" for p in paths)
            source = f"read_parquet([{listed}], union_by_name = true)"
        else:
            empty = ", ".join(f'null::{_TYPES[c.kind]} as "{c.name}"' for c in columns)
            source = f"(select {empty} where false)"
        self._con.execute(f"create view {name}_history as select * from {source}")
        key = (
            "template_id"
            if name == "templates"
            else "attempt_id"
            if any(c.name == "attempt_id" for c in columns)
            else None
        )
        if key is None:
            self._con.execute(f"create view {name} as select * from {name}_history")
            return
        # The newest run that wrote an attempt (or template) counts; older ones are history.
        newest = "attempts" if key == "attempt_id" else name
        self._con.execute(
            f"create view {name} as select h.* from {name}_history h semi join "
            f"(select {key}, max(run_id) as run_id from {newest}_history group by {key}) n "
            f"on h.{key} = n.{key} and h.run_id = n.run_id"
        )

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """The answer to `query` as a Polars frame.

        Raises:
            StoreError: the query is wrong.
        """
        try:
            frame: pl.DataFrame = self._con.sql(query, params=list(parameters)).pl()
        except duckdb.Error as error:
            raise StoreError(
                str(error).split("\n", 1)[0],
                where="query",
                mend="tables: " + ", ".join(TABLES) + "; each has a _history twin; see docs/reference/schema.md",
            ) from error
        except AttributeError as error:  # a statement without a result
            raise StoreError("the query gives no rows", where="query", mend="ask with select") from error
        return frame


def _quoted(text: str) -> str:
    return text.replace("'", "''")
