"""Detectors: findings from timed facts, not from words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attribution.model import Culprit, Evidence, Match, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a detector saw.

    `outcome` is proposed where the log's own words leave room: `over_quiet` where the log names no trouble,
    `over_limit` where only the scheduler's time limit or a cancellation ended the attempt.
    """

    detector: str
    outcome: Outcome | None = None
    failure_class: str | None = None
    match: Match | None = None
    culprit: Culprit | None = None
    because: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    over_quiet: bool = False
    over_limit: bool = False


Detector = Callable[[Evidence], "tuple[Finding, ...]"]


def run_detectors(evidence: Evidence) -> tuple[Finding, ...]:
    """Findings of every detector, in a fixed order."""
    from attribution.detectors import divergence, slowdown, stopped

    found: list[Finding] = []
    for detect in (divergence.detect, stopped.detect, slowdown.detect):
        found.extend(detect(evidence))
    return tuple(found)
