"""Many small Parquet files -> few. The new unit names what it stands for, so there is no moment without an answer."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribution.store.manifest import Manifest, sync_folder, write_whole
from attribution.store.rows import schema_of
from attribution.store.store import Store
from attribution.tables import TABLES

#: Units older than this may be compacted; a reader that listed the files before needs them a little longer.
GRACE_S = 60.0
#: A compacted unit holds at most this many attempts.
MOST_ATTEMPTS = 50_000


def compact(store: Store, *, now_s: float | None = None) -> tuple[int, int]:
    """Compact the units of each run; gives the number of units before and after. Old files go after `GRACE_S`."""
    now = time.time() if now_s is None else now_s
    before = store.manifests()
    by_digest: dict[tuple[str, str], list[Manifest]] = {}
    for m in before:
        by_digest.setdefault((m.rules, m.engine), []).append(m)
    for units in by_digest.values():
        for batch in _batches(units):
            if len(batch) > 1:
                _merge(store, batch, now)
    _sweep(store, now)
    return len(before), len(store.manifests())


def _batches(units: list[Manifest]) -> list[list[Manifest]]:
    out: list[list[Manifest]] = [[]]
    rows = 0
    for m in units:
        n = m.rows.get("attempts", 0)
        if out[-1] and rows + n > MOST_ATTEMPTS:
            out.append([])
            rows = 0
        out[-1].append(m)
        rows += n
    return out


def _merge(store: Store, units: list[Manifest], now: float) -> None:
    name = f"{units[-1].name}-c{len(units)}"
    files: list[str] = []
    rows: dict[str, int] = {}
    for table in TABLES:
        paths = [store.path / f for m in units for f in m.files if f.startswith(f"{table}/")]
        if not paths:
            continue
        whole = pa.concat_tables([pq.read_table(p).cast(schema_of(TABLES[table])) for p in paths])
        if "attempt_id" in whole.column_names:
            whole = whole.sort_by([("attempt_id", "ascending")])
        target = store.path / table / f"{name}.parquet"
        temporary = target.with_name(f".tmp-{target.name}")
        pq.write_table(whole, temporary, compression="zstd", row_group_size=64 * 1024)
        temporary.replace(target)
        sync_folder(target.parent)
        files.append(f"{table}/{name}.parquet")
        rows[table] = whole.num_rows
    inputs = {path: state for m in units for path, state in m.inputs.items()}
    merged = Manifest(
        name=name, run_id=units[-1].run_id, engine=units[-1].engine, rules=units[-1].rules, created_s=units[-1].created_s,
        files=tuple(files), rows=rows, inputs=inputs,
        replaces=tuple(sorted({m.name for m in units} | {r for m in units for r in m.replaces})),
    )  # fmt: skip
    write_whole(store.path / "runs" / f"{name}.json", merged.to_json())


def _sweep(store: Store, now: float) -> None:
    """Remove what no live unit names and nobody can still be reading."""
    live = store.manifests()
    keep = {f for m in live for f in m.files}
    names = {m.name for m in live}
    for path in sorted((store.path / "runs").glob("*.json")):
        if path.stem not in names and _old(path, now):
            path.unlink(missing_ok=True)
    for table in TABLES:
        for path in sorted((store.path / table).glob("*.parquet")):
            if f"{table}/{path.name}" not in keep and _old(path, now):
                path.unlink(missing_ok=True)


def _old(path: Path, now: float) -> bool:
    try:
        return now - path.stat().st_mtime > GRACE_S
    except FileNotFoundError:
        return False
