"""Situations in a few words, and what a policy answers: the document's inline `tests:`, the matrix, the lint's proofs.

An inline test reads

    - {name: a guess excludes nothing, given: {class: gpu_hw.off_bus, status: hypothesis}, expect: restart}

`given` takes class, outcome, status, domain, confidence, signals, entity, nodes, culprit_nodes, partition, progressed
(yes, no, unknown), and of history: same_root, other_roots (attempts before by the same root or by others that got no
further), further (attempts before, each of which got further). `expect` is an action; `row` may name the row that decides
and `exclude` the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attribution.model import (
    Action,
    Advice,
    Attempt,
    AttemptKey,
    Culprit,
    Diagnosis,
    Domain,
    Outcome,
    PolicyError,
    Progress,
    Status,
)
from attribution.policy.advise import advise
from attribution.policy.document import Policy
from attribution.policy.history import Fleet, History, PastAttempt
from attribution.signatures import ClassInfo

_KEY = AttemptKey(job_id="4242")
_ROOT = "root"
_STEP = 100
_GIVEN = frozenset(
    [
        "class",
        "outcome",
        "status",
        "domain",
        "confidence",
        "signals",
        "entity",
        "nodes",
        "culprit_nodes",
        "partition",
        "progressed",
        "same_root",
        "other_roots",
        "further",
    ]
)
#: Outcome of an attempt of a class where a case names none.
_OUTCOMES = {
    "healthy.completed": Outcome.COMPLETED,
    "healthy.running": Outcome.RUNNING,
    "scheduler.cancelled": Outcome.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What policy is asked: one attempt, its diagnosis, what was before."""

    diagnosis: Diagnosis
    attempt: Attempt
    history: History = field(default_factory=History)

    def advice(self, policy: Policy, taxonomy: Mapping[str, ClassInfo], fleet: Fleet | None = None) -> Advice:
        """The advice of `policy`."""
        return advise(
            self.diagnosis,
            self.attempt,
            policy=policy,
            taxonomy=taxonomy,
            history=self.history,
            fleet=fleet or Fleet(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One inline test, read strictly."""

    name: str
    situation: Situation
    expect: Action
    row: str | None = None
    exclude: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """An inline test and what came of it; `problems` is empty where it holds."""

    case: Case
    advice: Advice
    problems: tuple[str, ...]


def usual_outcome(failure_class: str | None) -> Outcome:
    """The outcome that an attempt of this class has, mostly."""
    if failure_class in _OUTCOMES:
        return _OUTCOMES[failure_class]
    family = (failure_class or "unknown.").split(".", 1)[0]
    return {"hang": Outcome.HUNG, "straggler": Outcome.SLOW}.get(family, Outcome.FAILED)


def past(
    *, same_root: int = 0, other_roots: int = 0, further: int = 0, known: bool = True, entity: str | None = None
) -> History:
    """A history: first attempts that got further each, then others' roots, then the same root; the last two got nowhere."""
    out: list[PastAttempt] = []
    kinds = ["further"] * further + ["other"] * other_roots + ["same"] * same_root
    for i, kind in enumerate(kinds):
        step = _STEP - (further - i) * 10 if kind == "further" else _STEP
        out.append(
            PastAttempt(
                restart=i,
                outcome=Outcome.FAILED,
                fingerprint=f"other-{i}" if kind == "other" else _ROOT,
                entity=entity,
                first_step=0 if known else None,
                last_step=step if known else None,
            )
        )
    return History(attempts=tuple(out))


def situation(taxonomy: Mapping[str, ClassInfo], given: Mapping[str, Any]) -> Situation:
    """The situation that `given` speaks of.

    Raises:
        ValueError: it names something that does not exist.
    """
    unknown = sorted(set(given) - _GIVEN)
    if unknown:
        raise ValueError(f"unknown keys in given: {', '.join(unknown)}; known are {', '.join(sorted(_GIVEN))}")
    failure_class = given.get("class")
    if failure_class is not None and failure_class not in taxonomy:
        raise ValueError(f"{failure_class!r} is no class of the taxonomy")
    domain = given.get("domain") or (taxonomy[failure_class].domain if failure_class else Domain.UNKNOWN)
    made = {True: True, False: False, None: True, "yes": True, "no": False, "unknown": None}[given.get("progressed")]
    progress = (
        Progress() if made is None else Progress(dialect="steps", first_step=0 if made else _STEP, last_step=_STEP)
    )
    diagnosis = Diagnosis(
        attempt=_KEY,
        outcome=Outcome(given.get("outcome") or usual_outcome(failure_class)),
        failure_class=failure_class,
        domain=Domain(domain),
        status=Status(given.get("status", Status.ESTABLISHED)),
        confidence=float(given.get("confidence", 0.9)),
        culprit=Culprit(nodes=tuple(given.get("culprit_nodes", ()))),
        signals=tuple(given.get("signals", ())),
        fingerprint=_ROOT,
        entity=given.get("entity"),
        progress=progress,
    )
    counts = {k: int(given.get(k, 0)) for k in ("same_root", "other_roots", "further")}
    return Situation(
        diagnosis=diagnosis,
        attempt=Attempt(key=_KEY, nodes=tuple(given.get("nodes", ())), partition=given.get("partition")),
        history=past(known=made is not None, entity=given.get("entity"), **counts),
    )


def read_case(raw: Any, number: int, path: str, taxonomy: Mapping[str, ClassInfo]) -> Case:
    """One entry of `tests:`.

    Raises:
        PolicyError: it cannot be understood.
    """
    where = f"{path}: tests[{number}]"
    if not isinstance(raw, dict) or not isinstance(raw.get("given"), dict) or "expect" not in raw:
        raise PolicyError("a test needs given and expect", where=where)
    unknown = sorted(set(raw) - {"name", "given", "expect", "row", "exclude"})
    if unknown:
        raise PolicyError(f"unknown keys {', '.join(unknown)}", where=where)
    try:
        return Case(
            name=str(raw.get("name", f"test {number}")),
            situation=situation(taxonomy, raw["given"]),
            expect=Action(str(raw["expect"])),
            row=None if raw.get("row") is None else str(raw["row"]),
            exclude=None if raw.get("exclude") is None else tuple(map(str, raw["exclude"])),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise PolicyError(
            f"cannot be understood: {error}", where=where, mend="see docs/how-to/write-a-policy.md"
        ) from error


def run_case(case: Case, policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> CaseResult:
    """What the policy answers to a case, and whether that is what the case expects."""
    got = case.situation.advice(policy, taxonomy)
    problems = []
    if got.action != case.expect:
        limits = f", weakened: {'; '.join(got.limits)}" if got.limits else ""
        problems.append(f"expected {case.expect}, got {got.action} by row {got.reason_code}{limits}")
    if case.row is not None and got.reason_code != case.row:
        problems.append(f"expected row {case.row}, got {got.reason_code}")
    if case.exclude is not None and got.exclude_nodes != case.exclude:
        problems.append(f"expected to exclude {list(case.exclude)}, got {list(got.exclude_nodes)}")
    return CaseResult(case=case, advice=got, problems=tuple(problems))


def run_tests(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> tuple[CaseResult, ...]:
    """The inline tests of a policy, in their order.

    Raises:
        PolicyError: a test cannot be understood.
    """
    cases = [read_case(raw, i, policy.path, taxonomy) for i, raw in enumerate(policy.tests)]
    return tuple(run_case(case, policy, taxonomy) for case in cases)
