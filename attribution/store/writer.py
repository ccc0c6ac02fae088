"""Writes results into the store, one commit unit after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from attribution.store.lock import exclusive
from attribution.store.manifest import Input, Manifest, sync_folder, write_whole
from attribution.store.rows import Rows, table_of
from attribution.tables import TABLES
from attribution.templates import Masked, Miner, Template

if TYPE_CHECKING:
    from attribution.result import Result
    from attribution.store.store import Store

#: A unit is committed when it holds this many attempts, or attempts of this many bytes of logs.
UNIT_ATTEMPTS = 512
UNIT_BYTES = 1 << 30
#: Rows that are read together: fine enough that a question about one attempt reads little.
ROWS_PER_GROUP = 64 * 1024

Classifier = Callable[[str], "tuple[str | None, str | None]"]


def write_table(path: Path, table: pa.Table) -> None:
    """One Parquet file, whole or not at all, sorted so that one attempt's rows lie together."""
    if "attempt_id" in table.column_names:
        table = table.sort_by([("attempt_id", "ascending")])
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{path.name}")
    pq.write_table(table, temporary, compression="zstd", row_group_size=ROWS_PER_GROUP)
    with temporary.open("rb+") as f:
        os.fsync(f.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


class Writer:
    """A run that writes. Use as a context manager; leaving it commits what is left, an exception does not.

    Args:
        store: where to write.
        run_id: names the run; later runs sort behind earlier ones.
        rules, engine: digests that decide whether an input needs to be analysed again.
        classify: exemplar line -> (signature, class), for mapping templates to what rules say of them.
    """

    def __init__(
        self, store: Store, *, run_id: str, rules: str, engine: str, classify: Classifier | None = None
    ) -> None:
        self._store, self.run_id = store, run_id
        self._rules, self._engine, self._classify = rules, engine, classify
        self._miner: Miner | None = None
        self._known: set[str] = set()
        self._unit = 0
        self._reset()

    def _reset(self) -> None:
        self._rows = Rows(self.run_id)
        self._masked: dict[str, dict[str, Masked]] = {}
        self._inputs: dict[str, tuple[int, int, str]] = {}
        self._attempts = 0
        self._bytes = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or kind is KeyboardInterrupt:  # only whole jobs were added, so what is done may stay
            self.commit()

    def add(self, results: Sequence[Result], documents: Sequence[tuple[str, str]], inputs: Sequence[Input]) -> None:
        """Results of one job with their documents (diagnosis, advice), and the inputs that they come from.

        A job is never divided over units.
        """
        for result, (document, advice) in zip(results, documents, strict=True):
            self._rows.add(result, document, advice)
            if result.masked:
                self._masked[str(result.evidence.attempt.key)] = dict(result.masked)
            self._bytes += result.evidence.attempt.size_bytes
        self._inputs.update({i.path: (i.size, i.mtime_ns, i.edges) for i in inputs})
        self._attempts += len(results)
        if self._attempts >= UNIT_ATTEMPTS or self._bytes >= UNIT_BYTES:
            self.commit()

    def commit(self) -> None:
        """Make what was added part of the store.

        Raises:
            StoreError: it cannot be written; the store is as before.
        """
        if not self._attempts:
            return
        with exclusive(self._store.path):
            self._mine()
            self._write()
        self._unit += 1
        self._reset()

    def _write(self) -> None:
        name = f"{self.run_id}-{self._unit:05d}"
        files: list[str] = []
        rows: dict[str, int] = {}
        for table in TABLES:
            found = self._rows.tables[table]
            if not found:
                continue
            write_table(self._store.path / table / f"{name}.parquet", table_of(table, found))
            files.append(f"{table}/{name}.parquet")
            rows[table] = len(found)
        manifest = Manifest(
            name=name,
            run_id=self.run_id,
            engine=self._engine,
            rules=self._rules,
            created_s=time.time(),
            files=tuple(files),
            rows=rows,
            inputs=self._inputs,
        )
        write_whole(self._store.path / "runs" / f"{name}.json", manifest.to_json())
        self._known.add(name)

    def _mine(self) -> None:
        if not self._masked:
            return
        miner = self._current()
        for attempt, counts in miner.mine(self._masked).items():
            self._rows.counts(attempt, counts)
        self._rows.place(self._masked, miner.template_of)
        for known in sorted(miner.changed):
            template: Template = miner.templates[known]
            signature, failure_class = self._classify(template.exemplar) if self._classify else (None, None)
            self._rows.template(template, signature, failure_class)
        miner.changed.clear()

    def _current(self) -> Miner:
        """A miner that knows every template of the store, those too that other runs added meanwhile."""
        units = {p.stem for p in (self._store.path / "runs").glob("*.json")}
        if self._miner is None or not units <= self._known:
            self._known |= units
            self._miner = Miner(self._store.templates())
        return self._miner
