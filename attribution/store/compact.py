"""Many small Parquet files -> few. The new unit names what it stands for, so there is no moment without an answer."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribution.model import StoreError
from attribution.store.lock import exclusive
from attribution.store.manifest import Manifest, live, write_whole
from attribution.store.rows import schema_of
from attribution.store.store import Store
from attribution.store.writer import write_table
from attribution.tables import TABLES

#: A reader that listed the files before a compaction may want them this much longer.
GRACE_S = 60.0
#: A compacted unit holds about this many rows, all tables together: what sorts in a few hundred megabytes.
MOST_ROWS = 2_000_000


def compact(store: Store, *, now_s: float | None = None) -> tuple[int, int]:
    """Put small units together; gives the number of units before and after.

    Files that were put together go with the next compaction after `GRACE_S`; what a killed run left goes at once.

    Raises:
        StoreError: the store cannot be written, or a file of it is damaged.
    """
    now = time.time() if now_s is None else now_s
    with exclusive(store.path):
        before = store.manifests()
        by_digest: dict[tuple[str, str], list[Manifest]] = {}
        for m in before:
            by_digest.setdefault((m.rules, m.engine), []).append(m)
        for units in by_digest.values():
            for batch in _batches(units):
                if len(batch) > 1:
                    _merge(store, batch)
        _sweep(store, now)
        return len(before), len(store.manifests())


def _batches(units: list[Manifest]) -> list[list[Manifest]]:
    out: list[list[Manifest]] = [[]]
    rows = 0
    for m in units:
        n = sum(m.rows.values())
        if out[-1] and rows + n > MOST_ROWS:
            out.append([])
            rows = 0
        out[-1].append(m)
        rows += n
    return out


def _merge(store: Store, units: list[Manifest]) -> None:
    name = f"{units[-1].name}-c{len(units)}"
    files: list[str] = []
    rows: dict[str, int] = {}
    for table in TABLES:
        paths = [store.path / f for m in units for f in m.files if f.startswith(f"{table}/")]
        if not paths:
            continue
        whole = pa.concat_tables(_read(p, table) for p in paths)
        if table == "templates":
            whole = _last_versions(whole)
        write_table(store.path / table / f"{name}.parquet", whole)
        files.append(f"{table}/{name}.parquet")
        rows[table] = whole.num_rows
    inputs = {path: state for m in units for path, state in m.inputs.items()}
    merged = Manifest(
        name=name, run_id=units[-1].run_id, engine=units[-1].engine, rules=units[-1].rules, created_s=units[-1].created_s,
        files=tuple(files), rows=rows, inputs=inputs,
        replaces=tuple(sorted({m.name for m in units} | {r for m in units for r in m.replaces})),
    )  # fmt: skip
    write_whole(store.path / "runs" / f"{name}.json", merged.to_json())


def _read(path: Path, table: str) -> pa.Table:
    """A file in the table's present schema; columns that were added since are null."""
    try:
        found = pq.read_table(path)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot be read: {error}", where=str(path), mend="see recovery store verify for what is damaged"
        ) from error
    schema = schema_of(TABLES[table])
    columns = [
        found.column(f.name).cast(f.type) if f.name in found.column_names else pa.nulls(found.num_rows, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _last_versions(templates: pa.Table) -> pa.Table:
    """Of the versions that one run wrote of a template the last one; rows come in the order of their units."""
    keys = zip(templates["run_id"].to_pylist(), templates["template_id"].to_pylist(), strict=True)
    last = {key: i for i, key in enumerate(keys)}
    return templates.take(sorted(last.values()))


def _sweep(store: Store, now: float) -> None:
    """Remove what no unit names, and what another unit stands for where nobody can still be reading it."""
    runs = store.path / "runs"
    there = {m.name: m for p in sorted(runs.glob("*.json")) if (m := Manifest.from_json(p.read_bytes(), str(p)))}
    for m in live(there.values()):
        if m.replaces and now - (runs / f"{m.name}.json").stat().st_mtime > GRACE_S:
            for name in m.replaces:
                (runs / f"{name}.json").unlink(missing_ok=True)
                there.pop(name, None)
    keep = {f for m in there.values() for f in m.files}
    for folder in (*TABLES, "runs"):
        for path in sorted((store.path / folder).glob(".tmp-*")):
            path.unlink(missing_ok=True)
    for table in TABLES:
        for path in sorted((store.path / table).glob("*.parquet")):
            if f"{table}/{path.name}" not in keep:
                path.unlink(missing_ok=True)
