"""A job's own rhythm: how long it takes between signs of progress, learned from arrivals, and when silence is too long."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

#: Gaps that are remembered; enough to hold several evaluations and savings.
REMEMBERED = 512
#: A warning after this many of the longest gaps seen, a verdict after `HANG` of them.
WARN = 2.0
HANG = 4.0
#: Gaps that must be known before silence is judged at all.
FEWEST = 5


class Verdict(StrEnum):
    """What the clock says."""

    UNKNOWN = "unknown"
    WELL = "well"
    LATE = "late"
    HANGING = "hanging"


@dataclass(slots=True)
class Rhythm:
    """Times between arrivals of progress lines. Arrivals that were read as history teach nothing but that a format is there."""

    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    last_s: float | None = None
    seen: bool = False

    def progress(self, now: float, *, learn: bool = True) -> None:
        """A progress line arrived."""
        if learn and self.last_s is not None and now > self.last_s:
            self.gaps.append(now - self.last_s)
        self.last_s = now
        self.seen = True

    def allowed_s(self, least_s: float) -> float:
        """Silence that this job has shown to be ordinary: its longest gap, and never less than `least_s`.

        The longest gap holds the phases (evaluation, saving, compiling) that the job has lived through.
        """
        return max(max(self.gaps, default=0.0), 10.0 * statistics.median(self.gaps) if self.gaps else 0.0, least_s)

    def judge(self, now: float, *, least_s: float) -> Verdict:
        """What silence until `now` means. Before progress was ever seen the clock cannot tell a slow start from a hang."""
        if not self.seen or self.last_s is None or len(self.gaps) < FEWEST:
            return Verdict.UNKNOWN
        silence, allowed = now - self.last_s, self.allowed_s(least_s)
        if silence >= HANG * allowed:
            return Verdict.HANGING
        return Verdict.LATE if silence >= WARN * allowed else Verdict.WELL

    def describe(self, now: float) -> str:
        """The silence against the rhythm, in words."""
        if self.last_s is None or not self.gaps:
            return "no rhythm is known"
        return (
            f"no progress for {now - self.last_s:.0f} s; usually every {statistics.median(self.gaps):.3g} s, "
            f"at most {max(self.gaps):.3g} s so far"
        )
