"""The lens: an in-memory DuckDB with views over the Parquet files of committed units. Nothing outside the store is read,
and nothing is written."""

from __future__ import annotations

import re
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
#: What tells the versions of a row apart in tables that are not rewritten with each analysis of an attempt: of rows with
#: the same key the last one by the order counts. `filename` sorts as units were committed.
_NEWEST = {
    "templates": ("template_id", "run_id desc, filename desc"),
    "labels": ("attempt_id, field", "labelled_at_s desc, run_id desc"),
}


class Lens:
    """One connection over one state of the store; use as a context manager.

    Args:
        store: the store.
        query: where given, only the tables that it names are opened.
    """

    def __init__(self, store: Store, query: str | None = None) -> None:
        self._store = store
        self._con = duckdb.connect(":memory:")
        self._con.execute(f"set allowed_directories = ['{_quoted(str(store.path.resolve()))}/']")
        self._con.execute("set enable_external_access = false")
        files: dict[str, list[str]] = {name: [] for name in _wanted(query)}
        for m in store.manifests():
            for f in m.files:
                table = f.split("/", 1)[0]
                if table in files:
                    files[table].append(str((store.path / f).resolve()))
        try:
            for name, paths in files.items():
                self._view(name, paths)
        except duckdb.Error as error:
            self._con.close()
            raise self._damaged(error) from error
        self._con.execute("set lock_configuration = true")

    def __enter__(self) -> Lens:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()

    def _view(self, name: str, paths: list[str]) -> None:
        columns = TABLES[name]
        if paths:
            listed = ", ".join(f"'{_quoted(p)}'" for p in paths)
            source = f"read_parquet([{listed}], union_by_name = true, filename = true)"
            there = set(self._con.sql(f"select * from {source} limit 0").columns)
        else:
            source, there = "(select null as filename where false)", set()
        # Files of an older version lack columns that were added since: those read as null.
        told = ", ".join(f'"{c.name}"' if c.name in there else f'null::{_TYPES[c.kind]} as "{c.name}"' for c in columns)
        self._con.execute(f"create view {name}_history as select {told} from {source}")
        if name in _NEWEST:
            key, order = _NEWEST[name]
            self._con.execute(
                f"create view {name} as select {told} from {source} "
                f"qualify row_number() over (partition by {key} order by {order}) = 1"
            )
            return
        # The newest run that wrote an attempt counts; older ones are history.
        self._con.execute(
            f"create view {name} as select h.* from {name}_history h semi join "
            "(select attempt_id, max(run_id) as run_id from attempts_history group by attempt_id) n "
            "on h.attempt_id = n.attempt_id and h.run_id = n.run_id"
        )

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """The answer to `query` as a Polars frame.

        Raises:
            StoreError: the query is wrong, or no single question; or a file of the store is damaged.
        """
        try:
            kinds = [s.type for s in self._con.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise StoreError(
                    "one question at a time, and nothing that writes", where="query", mend="ask with select"
                )
            frame: pl.DataFrame = self._con.sql(query, params=list(parameters)).pl()
        except duckdb.IOException as error:
            raise self._damaged(error) from error
        except duckdb.Error as error:
            raise StoreError(
                str(error).split("\n", 1)[0],
                where="query",
                mend="tables: " + ", ".join(TABLES) + "; each has a _history twin; see docs/reference/schema.md",
            ) from error
        return frame

    def _damaged(self, error: duckdb.Error) -> StoreError:
        return StoreError(
            str(error).split("\n", 1)[0],
            where=str(self._store.path),
            mend="see recovery store verify for what is damaged",
        )


def _wanted(query: str | None) -> list[str]:
    """Tables that a query may speak of; all of them where it names none, so that ``show tables`` tells."""
    named = set(re.findall(r"[a-z_]+", query.lower())) if query is not None else set()
    found = [name for name in TABLES if name in named or f"{name}_history" in named]
    if not found:
        return list(TABLES)
    return found if "attempts" in found else ["attempts", *found]


def _quoted(text: str) -> str:
    return text.replace("'", "''")
