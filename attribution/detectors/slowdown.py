"""The whole job became, and stayed, slower: step times against the job's own earlier ones."""

from __future__ import annotations

import itertools
import statistics

from attribution.detectors import Finding
from attribution.model import Evidence, Match, Outcome, ProgressPoint, Role

#: Later steps must take at least this many times the earlier median, from a change point to the end.
FACTOR = 2.0
FEWEST_POINTS = 16
FEWEST_SLOW = 5
#: Points that are looked at: medians are taken at every possible change, so their number is bounded.
MOST_POINTS = 160


def step_times(points: list[ProgressPoint]) -> list[tuple[ProgressPoint, float]]:
    """Seconds per step at each point: printed ones where the dialect prints them, else differences of stamps."""
    printed = [(p, p.step_time_s) for p in points if p.step_time_s]
    if len(printed) >= FEWEST_POINTS:
        return [(p, t) for p, t in printed if t is not None]
    out = []
    for a, b in itertools.pairwise(points):
        if a.place.time_s is None or b.place.time_s is None or a.step is None or b.step is None:
            continue
        if b.step > a.step and b.place.time_s > a.place.time_s:
            out.append((b, (b.place.time_s - a.place.time_s) / (b.step - a.step)))
    return out


def change_point(times: list[float]) -> int | None:
    """Index from which on the median is `FACTOR` times the one before, chosen to divide best; None where there is none.

    Medians, not means: evaluation and saving make single long steps.
    """
    best: tuple[float, int] | None = None
    for cut in range(max(4, len(times) // 20), len(times) - FEWEST_SLOW + 1):
        before, after = statistics.median(times[:cut]), statistics.median(times[cut:])
        if before <= 0 or after < FACTOR * before:
            continue
        slow = sum(1 for t in times[cut:] if t >= (FACTOR * 0.75) * before)
        quick = sum(1 for t in times[:cut] if t < (FACTOR * 0.75) * before)
        score = (slow + quick) / len(times)
        if best is None or score > best[0]:
            best = (score, cut)
    return best[1] if best is not None and best[0] >= 0.9 else None


def detect(evidence: Evidence) -> tuple[Finding, ...]:
    """One finding where steps became and stayed slower; without per-rank numbers it never names a rank."""
    main = evidence.progress.dialect
    points = [p for p in evidence.progress.points if p.dialect == main and p.phase == "train" and p.step is not None]
    timed = step_times(points)[1:]  # the first step pays for start-up
    if len(timed) < FEWEST_POINTS:
        return ()
    timed = timed[:: -(-len(timed) // MOST_POINTS)]
    times = [t for _, t in timed]
    cut = change_point(times)
    if cut is None:
        return ()
    p = timed[cut][0]
    before, after = statistics.median(times[:cut]), statistics.median(times[cut:])
    return (
        Finding(
            detector="slowdown",
            outcome=Outcome.SLOW,
            failure_class="straggler.slowdown",
            match=Match(
                signature="detector.slowdown",
                role=Role.CONTEXT,
                failure_class=None,
                place=p.place,
                text=f"from step {p.step} on a step takes {after:.3g} s, before {before:.3g} s",
                specificity=30,
            ),
            because=(f"from step {p.step} on a step takes {after / before:.1f} times as long",),
            signals=("slowed_down",),
            over_quiet=True,
        ),
    )
