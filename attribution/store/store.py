"""`Store`: open a folder, ask it questions, append to it. Many readers and one writer per run may work at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
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
        try:
            if create and not version.exists():
                write_whole(version, orjson.dumps({"store": STORE_VERSION}))
            found = int(orjson.loads(version.read_bytes())["store"])
        except FileNotFoundError as error:
            raise StoreError(
                "no store is here", where=str(self.path), mend="run recovery analyze --store, or name another"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"no store can be opened here: {error}",
                where=str(self.path),
                mend="name a folder of its own for the store",
            ) from error
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
            if str(Path(path).absolute()) not in known:
                continue
            now = Input.of(path)
            if now is not None and known.get(now.path) == (now.size, now.mtime_ns, now.edges):
                out.add(path)
        return frozenset(out)

    def writer(
        self, *, rules: str, engine: str, classify: Classifier | None = None, run_id: str | None = None
    ) -> Writer:
        """A new run that appends. Its id sorts behind all earlier ones."""
        from attribution.store.writer import Writer

        return Writer(self, run_id=run_id or _run_id(), rules=rules, engine=engine, classify=classify)

    def label(self, attempt_id: str, values: Mapping[str, str], *, by: str, now_s: float) -> None:
        """Say what is known to be true of an attempt. The newest label of a field counts; older ones stay as history.

        Args:
            attempt_id: whole id of an attempt of the store.
            values: by field; the fields are those of the table ``labels``.
            by: ``person:NAME``, or what the label was taken from.
            now_s: when, seconds since the epoch.

        Raises:
            StoreError: there is no such attempt or field, or the store cannot be written.
        """
        from attribution.store.labels import write_labels

        write_labels(self, attempt_id, values, by=by, now_s=now_s, run_id=_run_id())

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """Answer an SQL query over the tables (newest analysis of each attempt) and ``<table>_history`` (all of them).

        Raises:
            StoreError: the query is wrong; the message names the tables that there are.
        """
        from attribution.store.lens import Lens

        with Lens(self, query) as lens:
            return lens.sql(query, parameters)

    def templates(self) -> list[Template]:
        """Newest version of every template."""
        from attribution.templates import Template

        if not any(f.startswith("templates/") for m in self.manifests() for f in m.files):
            return []
        frame = self.sql("select template_id, template, exemplar from templates order by template_id")
        return [Template(id=r[0], text=r[1], exemplar=r[2]) for r in frame.iter_rows()]

    def attempt_id(self, beginning: str) -> str:
        """The whole id of the attempt that is called so, or whose id alone begins so.

        Raises:
            StoreError: no attempt, or several, begin so.
        """
        rows = self.sql(
            "select attempt_id from attempts where starts_with(attempt_id, ?) order by attempt_id", [beginning]
        )
        found: list[str] = rows["attempt_id"].to_list()
        if beginning in found:
            return beginning
        if not found:
            raise StoreError(
                f"no attempt {beginning!r}",
                where=str(self.path),
                mend='see recovery query "select attempt_id from attempts"',
            )
        if len(found) > 1:
            raise StoreError(
                f"{len(found)} attempts begin with {beginning!r}: " + ", ".join(found[:5]), where=str(self.path)
            )
        return found[0]

    def document(self, attempt_id: str) -> dict[str, Any]:
        """The newest ``recovery.diagnosis/1`` document of an attempt; a unique beginning of the id will do.

        Raises:
            StoreError: no attempt, or several, begin so.
        """
        whole = self.attempt_id(attempt_id)
        text = self.sql("select document from diagnoses where attempt_id = ?", [whole]).item()
        document: dict[str, Any] = orjson.loads(text)
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


def _run_id() -> str:
    """A name for a new run that sorts behind all earlier ones."""
    now = time.time_ns()
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 10**9))}-{now % 10**9:09d}"
