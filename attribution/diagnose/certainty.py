"""How sure: status in words, confidence as a calibrated number. The rules stand in docs/explanation/certainty.md.

established  a trusted source says it, or the root line states the cause itself (a precise signature) and every other
             trouble of the attempt is explained by it
supported    the root line states the cause, but other trouble stands unexplained beside it or the signature is general
hypothesis   only symptoms were seen, or order alone chose between candidates
unknown      nothing in the evidence is understood
"""

from __future__ import annotations

from collections.abc import Sequence

from attribution.causality import Causality
from attribution.model import TRUSTED_SOURCES, Episode, Hypothesis, Outcome, Role, Status

#: Specificity from which a signature states a cause rather than a kind of line.
PRECISE = 40

#: Share of right classes on the labelled corpus by status, measured by `recovery evaluate`; see the calibration table.
CONFIDENCE = {Status.ESTABLISHED: 0.96, Status.SUPPORTED: 0.92, Status.HYPOTHESIS: 0.8, Status.UNKNOWN: 0.5}


def status_of(lead: Episode | None, episodes: Sequence[Episode], outcome: Outcome, causality: Causality) -> Status:
    """Status of a diagnosis that rests on `lead`."""
    if outcome is Outcome.COMPLETED:
        return Status.ESTABLISHED if lead is None else Status.SUPPORTED
    if lead is None:
        return Status.UNKNOWN if outcome is Outcome.UNKNOWN else Status.HYPOTHESIS
    root = lead.root
    if root.place.source in TRUSTED_SOURCES and root.specificity >= PRECISE:
        return Status.ESTABLISHED
    if causality.is_symptom(root.failure_class) or root.role is not Role.ROOT:
        return Status.HYPOTHESIS
    rivals = [e for e in episodes[1:] if not e.recovered and not causality.is_symptom(e.root.failure_class)]
    if rivals or root.specificity < PRECISE:
        return Status.SUPPORTED
    return Status.ESTABLISHED


def confidence_of(status: Status, outcome: Outcome) -> float:
    """Calibrated probability that the class is right."""
    if outcome is Outcome.COMPLETED and status is Status.ESTABLISHED:
        return 0.97
    return CONFIDENCE[status]


def runner_up(lead: Episode | None, episodes: Sequence[Episode], confidence: float) -> Hypothesis | None:
    """The class of the next best episode, with the evidence that would make it the answer."""
    if lead is None:
        return None
    for e in episodes[1:]:
        other = e.root.failure_class
        if e.recovered or other is None or other == lead.root.failure_class:
            continue
        where = f"{e.root.place.path}:{e.root.place.line}"
        return Hypothesis(
            failure_class=other,
            confidence=round(min((1.0 - confidence) * 0.6, confidence), 3),
            flips_if=f"{where} came first, or {lead.root.place.path}:{lead.root.place.line} proves harmless",
        )
    return None
