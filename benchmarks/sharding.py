"""However the work is cut, the store says the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attribution.store import Store

if TYPE_CHECKING:
    from benchmarks.__main__ import Row, Run

_TABLES = {
    "templates": "select template_id, template, exemplar, signature, class from templates order by all",
    "template counts": "select attempt_id, template_id, count, first_path, first_line from template_counts order by all",
    "matches": "select * exclude (run_id) from matches order by attempt_id, path, line, signature",
    # The document holds the hour of the advice.
    "diagnoses": "select * exclude (run_id, document) from diagnoses order by all",
}


def rows(folder: Path, measure: Callable[[list[str]], Run], analyze: Callable[..., list[str]]) -> list[Row]:
    """Rows of the table: one process against two, and the time on the wall."""
    from benchmarks.__main__ import Row

    walls, said = [], []
    for processes in ("1", "2"):
        store = folder / f"store-shards-{processes}"
        start = time.perf_counter()
        measure(analyze(folder / "mix", store, "-j", processes, "--reanalyze"))
        walls.append(time.perf_counter() - start)
        said.append({name: Store(store).sql(query) for name, query in _TABLES.items()})
    unlike = [name for name in _TABLES if not said[0][name].equals(said[1][name])]
    sizes = ", ".join(f"{said[0][name].height:,} {name}" for name in _TABLES)
    return [
        Row(
            f"one process against two: {sizes}",
            f"DIFFERENT: {', '.join(unlike)}" if unlike else "identical",
            "identical",
            "recovery analyze mix -j 1, -j 2",
        ),
        Row(
            f"two processes, time on the wall, {os.cpu_count()} cores",
            f"{walls[0] / walls[1]:.2f} times as fast as one",
            ">= 1.6 times",
            "recovery analyze mix -j 1, -j 2",
        ),
    ]
