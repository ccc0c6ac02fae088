"""The usual questions to a store of 10^5 attempts and 10^7 matches, written in units as a run writes them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from attribution.store import Store
from attribution.store.manifest import Manifest, write_whole
from attribution.store.rows import schema_of
from attribution.store.writer import write_table
from attribution.tables import TABLES

if TYPE_CHECKING:
    from benchmarks.__main__ import Row

ATTEMPTS = 100_000
MATCHES_EACH = 100
UNIT = 512
_CLASSES = ["healthy.completed", "gpu_memory.cuda_oom", "network_fabric.ib_transport_error", "host_memory.oom_killed"]

QUESTIONS = {
    "failures by class": "select class, count(*) n from diagnoses group by 1 order by n desc",
    "one attempt's matches": "select * from matches where attempt_id = '1054321@1750000000.0' order by path, line",
    "one attempt's document": "select document from diagnoses where attempt_id = '1054321@1750000000.0'",
    "signatures most often at the root": "select signature, count(*) n from matches where role = 'root' group by 1 order by n desc limit 10",
    "nodes with most failures": "select unnest(culprit_nodes) node, count(*) n from diagnoses where outcome = 'failed' group by 1 order by n desc limit 10",
    "templates that no rule explains": "select t.template, sum(c.count) n from templates t join template_counts c using (template_id) where t.signature is null group by 1 order by n desc limit 20",
    "attempts with an Xid": "select count(distinct attempt_id) from matches where signature = 'emitter.signature_17'",
}


def _table(name: str, given: dict[str, Any], rows: int) -> pa.Table:
    schema = schema_of(TABLES[name])
    columns = [pa.array(given[f.name], type=f.type) if f.name in given else pa.nulls(rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _unit(r: np.random.Generator, first: int, count: int, run_id: str) -> dict[str, pa.Table]:
    ids = np.array([f"{1_000_000 + first + i}@1750000000.0" for i in range(count)])
    classes = r.integers(0, len(_CLASSES), count)
    nodes = [[f"gpu-{n:04d}"] for n in r.integers(0, 4000, count)]
    many = np.repeat(ids, MATCHES_EACH)
    n = len(many)
    signatures = r.integers(0, 400, n)
    counts = np.repeat(ids, 40)
    who = {"attempt_id": ids, "run_id": [run_id] * count}
    return {
        "attempts": _table("attempts", {**who, "job_id": ids, "files": [["a.log"]] * count, "nodes": nodes}, count),
        "diagnoses": _table(
            "diagnoses",
            {
                **who,
                "outcome": ["completed" if c == 0 else "failed" for c in classes],
                "class": [_CLASSES[c] for c in classes],
                "culprit_nodes": nodes,
                "document": ['{"schema": "recovery.diagnosis/1", "text": "' + "x" * 900 + '"}'] * count,
            },
            count,
        ),
        "advice": _table("advice", {**who, "action": ["restart"] * count}, count),
        "matches": _table(
            "matches",
            {
                "attempt_id": many,
                "run_id": [run_id] * n,
                "signature": [f"emitter.signature_{s}" for s in signatures.tolist()],
                "role": ["root" if s < 40 else "context" for s in signatures.tolist()],
                "path": [f"slurm-{a}.out" for a in many.tolist()],
                "line": r.integers(1, 10**6, n),
                "offset": r.integers(1, 10**9, n),
                "text": [f"gpu-{x:04d} NCCL WARN something happened with status {x}" for x in signatures.tolist()],
                "count": np.ones(n, dtype=np.int64),
            },
            n,
        ),
        "template_counts": _table(
            "template_counts",
            {
                "attempt_id": counts,
                "run_id": [run_id] * len(counts),
                "template_id": r.integers(1, 5000, len(counts)),
                "count": r.integers(1, 1000, len(counts)),
            },
            len(counts),
        ),
    }


def make(folder: Path, attempts: int = ATTEMPTS) -> Store:
    """A store of so many attempts."""
    store = Store(folder, create=True)
    r = np.random.default_rng(1)
    for number, first in enumerate(range(0, attempts, UNIT)):
        run_id = "20260101T000000-000000001"
        tables = _unit(r, first, min(UNIT, attempts - first), run_id)
        if not number:
            tables["templates"] = _table(
                "templates",
                {
                    "template_id": np.arange(1, 5001),
                    "template": [f"template {i} <*>" for i in range(5000)],
                    "signature": [None if i % 3 else "emitter.signature_1" for i in range(5000)],
                    "run_id": [run_id] * 5000,
                },
                5000,
            )
        name = f"{run_id}-{number:05d}"
        for table, content in tables.items():
            write_table(folder / table / f"{name}.parquet", content)
        manifest = Manifest(
            name=name,
            run_id=run_id,
            engine="bench",
            rules="bench",
            created_s=float(number),
            files=tuple(f"{t}/{name}.parquet" for t in tables),
            rows={t: c.num_rows for t, c in tables.items()},
            inputs={f"/logs/{first + i}.out": (1, 1, "x") for i in range(UNIT)},
        )
        write_whole(folder / "runs" / f"{name}.json", manifest.to_json())
    return store


def _slowest(store: Store) -> tuple[str, float]:
    times = {}
    for question, query in QUESTIONS.items():
        start = time.perf_counter()
        store.sql(query)
        times[question] = time.perf_counter() - start
    for question, seconds in times.items():
        print(f"  {question}: {seconds * 1000:.0f} ms")
    worst = max(times, key=lambda q: times[q])
    return worst, times[worst]


def rows(folder: Path) -> list[Row]:
    """Rows of the table."""
    from attribution.store.compact import compact
    from benchmarks.__main__ import Row

    shutil.rmtree(folder / "big-store", ignore_errors=True)
    store = make(folder / "big-store")
    what = f"{len(QUESTIONS)} usual questions to {ATTEMPTS:,} attempts, {ATTEMPTS * MATCHES_EACH:,} matches"
    question, seconds = _slowest(store)
    out = [Row(what + ", as written", f"at most {seconds:.2f} s ({question})", "< 1 s", "benchmarks/big_store.py")]
    compact(store)
    question, seconds = _slowest(store)
    out.append(Row(what + ", compacted", f"at most {seconds:.2f} s ({question})", "< 1 s", "benchmarks/big_store.py"))
    return out
