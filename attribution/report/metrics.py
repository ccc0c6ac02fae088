"""Counts of a store in Prometheus' text format, for a node exporter's folder or for ``/metrics``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attribution.report.html.fleet import Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(rows: Sequence[Row]) -> str:
    """Metrics of the attempts of a store (`fleet.read(store).rows`).

    Gauges, since a store may be compacted or analysed again: ``recovery_attempts{outcome}``,
    ``recovery_diagnoses{class,domain,status}``, ``recovery_advice{action}``, ``recovery_gpu_hours``,
    ``recovery_failed_gpu_hours{class,domain}``, ``recovery_last_end_time_seconds``. Labels are closed sets: attempts,
    nodes and texts are never labels.
    """
    lost: defaultdict[tuple[str, str], float] = defaultdict(float)
    for r in rows:
        if r.failed and r.gpu_hours is not None:
            lost[r.failure_class or "unclassified", r.domain] += r.gpu_hours
    diagnoses = Counter((r.failure_class or "unclassified", r.domain, r.status) for r in rows)
    ends = [r.end_s for r in rows if r.end_s is not None]
    lines = [
        *_gauge("recovery_attempts", "Attempts by outcome", ("outcome",), Counter((r.outcome,) for r in rows)),
        *_gauge("recovery_diagnoses", "Diagnoses by class", ("class", "domain", "status"), diagnoses),
        *_gauge("recovery_advice", "Advice by action", ("action",), Counter((r.action,) for r in rows if r.action)),
        *_gauge("recovery_gpu_hours", "GPU-hours of all attempts", (), {(): sum(r.gpu_hours or 0 for r in rows)}),
        *_gauge("recovery_failed_gpu_hours", "GPU-hours of failed attempts", ("class", "domain"), lost),
    ]
    if ends:
        lines += _gauge("recovery_last_end_time_seconds", "End of the latest attempt", (), {(): max(ends)})
    return "\n".join(lines) + "\n"


def _gauge(name: str, doc: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Iterable[str]:
    yield f"# HELP {name} {doc}."
    yield f"# TYPE {name} gauge"
    for key in sorted(values):
        told = ",".join(f'{k}="{_escaped(v)}"' for k, v in zip(labels, key, strict=True))
        yield f"{name}{{{told}}} {values[key]!r}" if told else f"{name} {values[key]!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
