"""A run that computes nonsense: losses that become nan or inf, or climb out of all proportion and stay there.

A single nan step that mixed precision skips is usual; a loss that never becomes finite again spoiled the run, even when
the program ends normally and prints no error.
"""

from __future__ import annotations

import math

from attribution.detectors import Finding
from attribution.model import Evidence, Match, Outcome, ProgressPoint, Role

#: Last points that must all be spoiled.
LAST_POINTS = 5
#: A loss this many times the early median (and above `FLOOR`) has diverged.
EXPLODED = 1e3
FLOOR = 1e3
FEWEST_POINTS = 8


def _spoiled(value: float, early: float) -> bool:
    return not math.isfinite(value) or (abs(value) > FLOOR and abs(value) > EXPLODED * max(abs(early), 1e-6))


def _match(p: ProgressPoint, value: float) -> Match:
    return Match(
        signature="detector.divergence",
        role=Role.ROOT,
        failure_class="numerics.nan_loss",
        place=p.place,
        text=f"loss {value:g} at step {p.step}",
        specificity=50,
    )


def detect(evidence: Evidence) -> tuple[Finding, ...]:
    """One finding where the losses of the main dialect end spoiled; none where fewer than 8 losses are known."""
    main = evidence.progress.dialect
    for name in ("loss", "grad_norm"):
        points = [p for p in evidence.progress.points if p.dialect == main and p.phase == "train"]
        series = [(p, v) for p in points if (v := getattr(p, name)) is not None]
        if len(series) < FEWEST_POINTS:
            continue
        finite = [v for _, v in series[: max(3, len(series) // 10)] if math.isfinite(v)]
        # The smallest of the first ones: a run that explodes within a few steps has few good ones to take a median of.
        early = min((abs(v) for v in finite), default=0.0)
        if not all(_spoiled(v, early) for _, v in series[-LAST_POINTS:]):
            continue
        first = len(series)
        while first > 0 and _spoiled(series[first - 1][1], early):
            first -= 1
        p, value = series[first]
        return (
            Finding(
                detector="divergence",
                outcome=Outcome.FAILED,
                failure_class="numerics.nan_loss",
                match=_match(p, value),
                because=(f"{name} is {value:g} from step {p.step} on and never recovers",),
                signals=("diverged",),
                over_quiet=True,
                over_limit=True,
            ),
        )
    return ()
