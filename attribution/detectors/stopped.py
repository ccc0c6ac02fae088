"""Progress that stopped long before the attempt ended, measured against the attempt's own rhythm.

The last sign of progress is compared with the end: the accounting's end, or the stamp of the line that ended the job.
Phases without steps (evaluation, saving, start) are part of the rhythm: the longest gap that the attempt itself lived
through is what it may take again.
"""

from __future__ import annotations

import itertools

from attribution.detectors import Finding
from attribution.model import Evidence, Match, Outcome, Role

#: The silence must last this many times the longest gap seen before, and at least `LEAST_S`.
FACTOR = 3.0
LEAST_S = 300.0
FEWEST_POINTS = 5
_ENDING = frozenset({"time_limit", "job_cancelled", "sigterm_received", "preempted"})


def _end(evidence: Evidence) -> tuple[float, Match | None] | None:
    """When the attempt was ended from outside, and by which line."""
    ends = [m for m in evidence.matches if m.marks & _ENDING and m.place.time_s is not None]
    if ends:
        first = min(ends, key=lambda m: (m.place.time_s or 0.0, m.place.order))
        return (first.place.time_s or 0.0, first)
    if evidence.attempt.end_time_s is not None:
        return (evidence.attempt.end_time_s, None)
    return None


def detect(evidence: Evidence) -> tuple[Finding, ...]:
    """One finding where steps stopped and the attempt lived on far beyond its own rhythm; none without time stamps."""
    end = _end(evidence)
    timed = [p for p in evidence.progress.points if p.place.time_s is not None]
    if end is None or len(timed) < FEWEST_POINTS:
        return ()
    times = [p.place.time_s or 0.0 for p in timed]
    gaps = [b - a for a, b in itertools.pairwise(times) if b > a]
    if not gaps:
        return ()
    silence = end[0] - times[-1]
    # Clocks of a batch script and of slurmstepd may differ by whole hours of zone; such a silence proves nothing.
    if silence < max(LEAST_S, FACTOR * max(gaps)) or _looks_like_zone(silence, max(gaps)):
        return ()
    last = timed[-1]
    match = Match(
        signature="detector.stopped",
        role=Role.ROOT,
        failure_class="hang.no_progress",
        place=last.place,
        text=f"last progress: step {last.step}, {silence:.0f} s before the end",
        specificity=30,
    )
    return (
        Finding(
            detector="stopped",
            outcome=Outcome.HUNG,
            failure_class="hang.no_progress",
            match=match,
            because=(f"no progress for {silence:.0f} s before the end; the longest gap before was {max(gaps):.0f} s",),
            signals=("hung_until_ended",),
            over_quiet=True,
            over_limit=True,
        ),
    )


def _looks_like_zone(silence: float, longest_gap: float) -> bool:
    """True where taking whole (or half) hours off leaves an ordinary gap: two clocks, not a hang."""
    rest = silence % 1800.0
    return silence >= 1800.0 and min(rest, 1800.0 - rest) <= max(60.0, 2 * longest_gap)
