"""`Store`: open a folder, ask it questions, append to it. Many readers and one writer per run may work at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from attribution.model import StoreError
from attribution.store.manifest import Input, Manifest, inputs_of, live, write_whole
from attribution.tables import STORE_VERSION, TABLES

if TYPE_CHECKING:
    import polars as pl

    from attribution.store.writer import Classifier, Writer
    from attribution.templates import Template


class Store:
    """A store folder.

    Args:
        path: the folder.
        create: make it where it is not there; without, a missing store is an error.

    Raises:
        StoreError: there is no store, or it was written by a newer version.
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        version = self.path / "version.json"
        if create and not version.exists():
            write_whole(version, orjson.dumps({"store": STORE_VERSION}))
        try:
            found = int(orjson.loads(version.read_bytes())["store"])
        except FileNotFoundError as error:
            raise StoreError(
                "no store is here", where=str(self.path), mend="run recovery analyze --store, or name another"
            ) from error
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"version.json cannot be read: {error}", where=str(self.path)) from error
        if found > STORE_VERSION:
            raise StoreError(
                f"written by a newer version (store format {found}, this one knows {STORE_VERSION})",
                where=str(self.path),
                mend="update recovery",
            )

    def manifests(self) -> list[Manifest]:
        """Commit units that count, oldest first.

        Raises:
            StoreError: a manifest is damaged.
        """
        found = []
        for path in sorted((self.path / "runs").glob("*.json")):
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # compaction took it away meanwhile
                continue
            found.append(Manifest.from_json(data, str(path)))
        return live(found)

    def seen(self, paths: Iterable[str], *, rules: str, engine: str) -> frozenset[str]:
        """Those of `paths` that are in the store unchanged, analysed with the same rules by the same engine."""
        known = inputs_of(self.manifests(), rules, engine)
        out = set()
        for path in paths:
            now = Input.of(path)
            if now is not None and known.get(now.path) == (now.size, now.mtime_ns, now.edges):
                out.add(path)
        return frozenset(out)

    def writer(
        self, *, rules: str, engine: str, classify: Classifier | None = None, run_id: str | None = None
    ) -> Writer:
        """A new run that appends. Its id sorts behind all earlier ones."""
        from attribution.store.writer import Writer

        run_id = run_id or f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 10**9:09d}"
        return Writer(self, run_id=run_id, rules=rules, engine=engine, classify=classify)

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """Answer an SQL query over the tables (newest analysis of each attempt) and ``<table>_history`` (all of them).

        Raises:
            StoreError: the query is wrong; the message names the tables that there are.
        """
        from attribution.store.lens import Lens

        with Lens(self) as lens:
            return lens.sql(query, parameters)

    def templates(self) -> list[Template]:
        """Newest version of every template."""
        from attribution.templates import Template

        if not any(f.startswith("templates/") for m in self.manifests() for f in m.files):
            return []
        frame = self.sql("select template_id, template, exemplar from templates order by template_id")
        return [Template(id=r[0], text=r[1], exemplar=r[2]) for r in frame.iter_rows()]

    def document(self, attempt_id: str) -> dict[str, Any]:
        """The newest ``recovery.diagnosis/1`` document of an attempt; a unique beginning of the id will do.

        Raises:
            StoreError: no attempt, or several, begin so.
        """
        rows = self.sql(
            "select attempt_id, document from diagnoses where attempt_id = ? or starts_with(attempt_id, ?) order by attempt_id",
            [attempt_id, attempt_id],
        )
        exact = [r for r in rows.iter_rows() if r[0] == attempt_id]
        found = exact or list(rows.iter_rows())
        if not found:
            raise StoreError(
                f"no attempt {attempt_id!r}",
                where=str(self.path),
                mend='see recovery query "select attempt_id from attempts"',
            )
        if len(found) > 1:
            raise StoreError(
                f"{len(found)} attempts begin with {attempt_id!r}: " + ", ".join(r[0] for r in found[:5]),
                where=str(self.path),
            )
        document: dict[str, Any] = orjson.loads(found[0][1])
        return document

    def verify(self) -> list[str]:
        """What is wrong with the store, in sentences; empty where nothing is."""
        import pyarrow.parquet as pq

        problems = []
        for m in self.manifests():
            for file in m.files:
                table = file.split("/", 1)[0]
                try:
                    rows = pq.read_metadata(self.path / file).num_rows
                except (OSError, ValueError) as error:
                    problems.append(f"{file}: {error}")
                    continue
                if rows != m.rows.get(table):
                    problems.append(f"{file}: {rows} rows, its manifest says {m.rows.get(table)}")
        named = {f for m in self.manifests() for f in m.files}
        for table in TABLES:
            left = (p for p in sorted((self.path / table).glob("*.parquet")) if f"{table}/{p.name}" not in named)
            problems.extend(f"{table}/{p.name}: belongs to no committed run (left by an interrupted one)" for p in left)
        return problems
