"""Conditions of a row, one by one: which hold, and in which words. `advise` and `explain` ask the same function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attribution.causality import class_matches
from attribution.model import Diagnosis, Status
from attribution.policy.document import LADDER, When
from attribution.policy.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of a row. `text` says what it asks for and what was found."""

    name: str
    holds: bool
    text: str


def at_least(status: Status, bound: Status) -> bool:
    """True where `status` is `bound` or surer."""
    return LADDER.index(status) >= LADDER.index(bound)


def progressed(d: Diagnosis) -> bool | None:
    """Did this attempt make steps? None where no progress format was recognised."""
    if d.progress.dialect is None:
        return None
    return d.progress.last_step is not None and d.progress.last_step > (d.progress.first_step or 0)


def _class(w: When, d: Diagnosis, _: History) -> bool:
    return any(class_matches(p, d.failure_class or "") for p in w.classes)


def _same_root(w: When, d: Diagnosis, h: History) -> bool:
    bound = w.same_root_without_progress_at_least or 0
    return h.same_root_without_progress(d.fingerprint, d.progress.last_step) >= bound


def _same_entity(w: When, d: Diagnosis, h: History) -> bool:
    bound = w.same_entity_without_progress_at_least or 0
    return h.same_entity_without_progress(d.fingerprint, d.entity, d.progress.last_step) >= bound


def _stuck(w: When, d: Diagnosis, h: History) -> bool:
    return h.failures_without_progress(d.progress.last_step) >= (w.failures_without_progress_at_least or 0)


_Holds = Callable[[When, Diagnosis, History], bool]
#: Name in the document -> (field of When, does it hold). The order is the one in which they are told.
_TABLE: tuple[tuple[str, str, _Holds], ...] = (
    ("class", "classes", _class),
    ("domain", "domain", lambda w, d, _: d.domain in w.domain),
    ("outcome", "outcome", lambda w, d, _: d.outcome in w.outcome),
    ("status_at_least", "status_at_least", lambda w, d, _: at_least(d.status, w.status_at_least or Status.UNKNOWN)),
    ("status_at_most", "status_at_most", lambda w, d, _: at_least(w.status_at_most or Status.ESTABLISHED, d.status)),
    ("confidence_at_least", "confidence_at_least", lambda w, d, _: d.confidence >= (w.confidence_at_least or 0.0)),
    ("same_root_without_progress_at_least", "same_root_without_progress_at_least", _same_root),
    ("same_entity_without_progress_at_least", "same_entity_without_progress_at_least", _same_entity),
    ("failures_without_progress_at_least", "failures_without_progress_at_least", _stuck),
    ("restarts_at_least", "restarts_at_least", lambda w, _, h: len(h.attempts) >= (w.restarts_at_least or 0)),
    ("progressed", "progressed", lambda w, d, _: progressed(d) is w.progressed),
    ("signals", "signals", lambda w, d, _: any(s in d.signals for s in w.signals)),
)  # fmt: skip


def _given(when: When) -> Iterator[tuple[str, str, _Holds]]:
    return (entry for entry in _TABLE if getattr(when, entry[1]) not in ((), None))


def holds(when: When, d: Diagnosis, history: History) -> bool:
    """True where every condition of a row holds."""
    return all(check(when, d, history) for _, _, check in _given(when))


def _found(name: str, d: Diagnosis, h: History) -> str:
    step = d.progress.last_step
    facts: dict[str, Callable[[], object]] = {
        "class": lambda: d.failure_class or "no class",
        "domain": lambda: d.domain,
        "outcome": lambda: d.outcome,
        "status_at_least": lambda: d.status,
        "status_at_most": lambda: d.status,
        "confidence_at_least": lambda: f"{d.confidence:.2f}",
        "same_root_without_progress_at_least": lambda: h.same_root_without_progress(d.fingerprint, step),
        "same_entity_without_progress_at_least": lambda: h.same_entity_without_progress(d.fingerprint, d.entity, step),
        "failures_without_progress_at_least": lambda: h.failures_without_progress(step),
        "restarts_at_least": lambda: len(h.attempts),
        "progressed": lambda: {None: "unknown", True: "yes", False: "no"}[progressed(d)],
        "signals": lambda: ", ".join(d.signals) or "none",
    }
    return str(facts[name]())


def _asked(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def checks(when: When, d: Diagnosis, history: History) -> tuple[Check, ...]:
    """The conditions of a row with their answers, in words; empty for a row that always holds."""
    return tuple(
        Check(
            name=name,
            holds=check(when, d, history),
            text=f"{name.replace('_', ' ')} {_asked(getattr(when, attr))}: is {_found(name, d, history)}",
        )
        for name, attr, check in _given(when)
    )
