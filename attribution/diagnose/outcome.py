"""How the attempt ended: completed, failed, hung, slow, cancelled, running or unknown, and which witness says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribution.causality import Causality
from attribution.episodes import ordered
from attribution.model import Episode, Evidence, Match, Outcome, Role, Source

#: A completion line of at least this specificity is the program's own word, not an ``echo done`` in a batch script.
OWN_WORD = 50

#: Signatures of programs whose logs always hold an end line: without one the log is cut off.
SAYS_WHEN_DONE = ("progress.mlperf.",)

_CANCELLED = {"scheduler.cancelled", "scheduler.interrupted", "scheduler.preempted"}
_ACCOUNTING_FAILED = {"FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The outcome, the class where the ending itself names one, and the reasons."""

    outcome: Outcome
    failure_class: str | None = None
    match: Match | None = None
    decided_by: str = "rules"
    because: tuple[str, ...] = ()


def completion(matches: Sequence[Match]) -> Match | None:
    """The last line that says the run finished, program's own words before a script's."""
    done = [m for m in matches if "completed" in m.marks]
    own = [m for m in done if m.specificity >= OWN_WORD]
    return (own or done)[-1] if done else None


def of_class(failure_class: str) -> Outcome:
    """The outcome that goes with a failure class when nothing else is known."""
    if failure_class in _CANCELLED:
        return Outcome.CANCELLED
    family = failure_class.split(".", 1)[0]
    if family == "straggler":
        return Outcome.SLOW
    if failure_class in ("hang.no_progress", "hang.deadlock"):
        return Outcome.HUNG
    return Outcome.FAILED


def _reached_total(evidence: Evidence) -> bool:
    p = evidence.progress
    return (
        p.last_step is not None and p.total_steps is not None and p.total_steps > 1 and p.last_step >= p.total_steps - 1
    )


def _finished_anyway(done: Match, lead: Episode, evidence: Evidence, causality: Causality) -> bool:
    """True where the completion line outweighs the trouble: it stands behind it, or only symptoms follow it."""
    root = lead.root
    order = ordered([done, root])
    behind = order[-1] is done
    if done.specificity >= OWN_WORD:
        ended_by_others = (root.failure_class or "").startswith("scheduler.")
        symptom = causality.is_symptom(root.failure_class) or root.role in (Role.TEARDOWN, Role.CASCADE)
        return behind or symptom or ended_by_others
    uncaught = root.role is Role.ROOT and not causality.is_symptom(root.failure_class)
    return behind and not uncaught


def judge(evidence: Evidence, episodes: Sequence[Episode], causality: Causality) -> Ending:
    """How the attempt ended, by its own log first and by accounting where the log is silent."""
    lead = next((e for e in episodes if not e.recovered), None)
    done = completion(ordered(evidence.matches))
    state = (evidence.attempt.state or "").split(" ", 1)[0]
    if done is not None and (lead is None or _finished_anyway(done, lead, evidence, causality)):
        return Ending(
            outcome=Outcome.COMPLETED,
            failure_class="healthy.completed",
            match=done,
            because=(f"{done.place.path}:{done.place.line} says that the run finished",),
        )
    if lead is not None:
        failure_class = lead.root.failure_class or "unknown.unrecognised"
        return Ending(outcome=of_class(failure_class), failure_class=failure_class, match=lead.root)
    return _quiet(evidence, state)


def _quiet(evidence: Evidence, state: str) -> Ending:
    """No trouble that counts stands in the log: completed, running, cut off, or failed without a word."""
    if Source.ACCOUNTING in evidence.sources and state:
        if state == "COMPLETED":
            return Ending(
                outcome=Outcome.COMPLETED,
                failure_class="healthy.completed",
                decided_by="accounting",
                because=("accounting says COMPLETED",),
            )
        if state in _ACCOUNTING_FAILED:
            return Ending(
                outcome=Outcome.FAILED,
                failure_class="unknown.unrecognised",
                decided_by="accounting",
                because=(f"accounting says {state}, the log names no trouble",),
            )
    if evidence.growing:
        return Ending(outcome=Outcome.RUNNING, failure_class="healthy.running", because=("the log still grows",))
    if _reached_total(evidence):
        return Ending(
            outcome=Outcome.COMPLETED, failure_class="healthy.completed", because=("the last planned step was reached",)
        )
    p = evidence.progress
    if p.last_step is not None and p.total_steps is not None:
        return Ending(
            outcome=Outcome.UNKNOWN,
            failure_class="unknown.log_truncated",
            because=(f"the log stops at step {p.last_step} of {p.total_steps} without an ending",),
        )
    if any(m.signature.startswith(SAYS_WHEN_DONE) for m in evidence.matches):
        return Ending(
            outcome=Outcome.UNKNOWN,
            failure_class="unknown.log_truncated",
            because=("this kind of log always says when it is done, and this one does not",),
        )
    if evidence.attempt.n_lines == 0:
        return Ending(outcome=Outcome.UNKNOWN, failure_class="unknown.log_truncated", because=("the log is empty",))
    return Ending(
        outcome=Outcome.COMPLETED,
        failure_class="healthy.completed",
        decided_by="order",
        because=("no trouble is recognised and nothing shows that the log is cut off",),
    )
