"""Progress of an attempt: from progress matches to steps, losses, throughput and checkpoints.

The dialects themselves are signatures (``progress.<dialect>.<what>`` with the mark ``step``); this module reads their
captured fields. A loss printed as ``nan`` or ``inf`` is kept as such: the numerics detector needs it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from attribution.model import Match, Progress, ProgressPoint

#: Points kept per attempt: the first and last this many, and evenly strided ones between.
EDGE_POINTS = 256
MIDDLE_POINTS = 512

_NUMBER = re.compile(
    r"[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE
)
_SUFFIX = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "G": 1e9, "T": 1e12}


def number(text: str | None) -> float | None:
    """The first number in `text` (thousands separators and k/M/G/T suffixes understood), None where there is none."""
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    found = _NUMBER.search(text)
    if not found:
        return None
    try:
        value = float(found.group().replace(",", "").replace("_", ""))
    except ValueError:
        return None
    return value * _SUFFIX.get(text[found.end() : found.end() + 1], 1.0)


def whole(text: str | None) -> int | None:
    """`number` as an int; None for text without a finite number."""
    if text is not None and text.isdecimal() and len(text) < 19:
        return int(text)
    value = number(text)
    return int(value) if value is not None and math.isfinite(value) and abs(value) < 2**62 else None


def _step_time_s(fields: dict[str, str]) -> float | None:
    if (ms := number(fields.get("step_time_ms"))) is not None:
        return ms / 1000.0
    if (seconds := number(fields.get("step_time_s"))) is not None:
        return seconds
    rate = number(fields.get("steps_per_s"))
    return 1.0 / rate if rate else None


def dialect_of(signature: str) -> str:
    """``progress.megatron.iteration`` -> ``megatron``."""
    words = signature.split(".")
    return words[1] if len(words) > 1 else signature


def point(match: Match) -> ProgressPoint:
    """A progress match with the mark ``step`` as a point."""
    fields = match.fields
    phase = "eval" if "phase_eval" in match.marks else fields.get("phase", "train")
    return ProgressPoint(
        place=match.place,
        dialect=dialect_of(match.signature),
        step=whole(fields.get("step")),
        total_steps=whole(fields.get("total_steps")),
        epoch=number(fields.get("epoch")),
        loss=number(fields.get("loss")),
        grad_norm=number(fields.get("grad_norm")),
        step_time_s=_step_time_s(fields),
        throughput=number(fields.get("throughput")),
        phase=phase,
    )


def thin(points: Sequence[ProgressPoint]) -> tuple[ProgressPoint, ...]:
    """A bounded sample of `points` in the same order; equal input gives equal output."""
    if len(points) <= 2 * EDGE_POINTS + MIDDLE_POINTS:
        return tuple(points)
    middle = points[EDGE_POINTS:-EDGE_POINTS]
    stride = -(-len(middle) // MIDDLE_POINTS)
    return (*points[:EDGE_POINTS], *middle[::stride], *points[-EDGE_POINTS:])


def _main_dialect(points: Sequence[ProgressPoint]) -> str | None:
    """The dialect with most stepped training points; a bare progress bar only speaks where no framework does."""
    counts: dict[str, int] = {}
    for p in points:
        if p.phase == "train":
            weight = 1 if p.dialect in ("generic", "tqdm") else 1000
            counts[p.dialect] = counts.get(p.dialect, 0) + weight
    if not counts:
        return points[0].dialect if points else None
    return min(counts, key=lambda d: (-counts[d], d))


def _checkpoint_steps(matches: Iterable[Match], mark: str) -> list[int | None]:
    return [whole(m.fields.get("step")) for m in matches if mark in m.marks]


def summarise(points: Sequence[ProgressPoint], matches: Sequence[Match], *, n_points: int | None = None) -> Progress:
    """Progress of one attempt from its points and its checkpoint matches, both in order.

    `n_points` is the number of progress lines before sampling, where the scan sampled.
    """
    dialect = _main_dialect(points)
    steps = [p.step for p in points if p.dialect == dialect and p.phase == "train" and p.step is not None]
    totals = [p.total_steps for p in points if p.dialect == dialect and p.total_steps is not None]
    losses = [p.loss for p in points if p.dialect == dialect and p.loss is not None]
    saved = _checkpoint_steps(matches, "checkpoint_saved")
    known_saved = [s for s in saved if s is not None]
    known_loaded = [s for s in _checkpoint_steps(matches, "checkpoint_loaded") if s is not None]
    return Progress(
        dialect=dialect,
        first_step=steps[0] if steps else None,
        last_step=max(steps[-8:]) if steps else None,
        total_steps=totals[-1] if totals else None,
        last_loss=losses[-1] if losses else None,
        last_checkpoint_step=known_saved[-1] if known_saved else None,
        loaded_checkpoint_step=known_loaded[0] if known_loaded else None,
        checkpoints_saved=len(saved),
        n_points=n_points if n_points is not None else len(points),
        points=thin(points),
    )
