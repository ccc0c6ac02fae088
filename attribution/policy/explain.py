"""Why this advice, why not another, and which evidence would change it. Pure, and asked of the very functions that decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attribution.model import Action, Advice, Attempt, Culprit, Diagnosis, Outcome, Status
from attribution.policy.advise import EMPTY_FLEET, EMPTY_HISTORY, advise, decide
from attribution.policy.conditions import checks
from attribution.policy.document import LADDER, Policy
from attribution.policy.history import Fleet, History, PastAttempt
from attribution.signatures import ClassInfo

#: Rows of advice that a changed situation may lead to are told once each, this many at most.
MOST_FLIPS = 12
#: A name for "the node that evidence may name"; the attempt's own first node where it is known.
_SOME_NODE = "a-node-of-the-attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAnswer:
    """One row before the one that decided: which of its conditions did not hold."""

    row: str
    action: str
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A change of the evidence and what would be advised then."""

    change: str
    action: Action
    row: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyExplanation:
    """The decision opened up. `held` are the conditions of the row that decided; `wanted` is its action before the guard
    rails; `never_asked` are the rows behind it."""

    advice: Advice
    row: str
    held: tuple[str, ...]
    wanted: Action
    not_before: tuple[RowAnswer, ...]
    never_asked: tuple[str, ...]
    flips: tuple[Flip, ...]

    def sentences(self) -> tuple[str, ...]:
        """The explanation as lines for a person."""
        a = self.advice
        nodes = f" without {', '.join(a.exclude_nodes)}" if a.exclude_nodes else ""
        out = [f"advice: {a.action}{nodes} ({a.reason})"]
        why = "; ".join(self.held) if self.held else "it holds always"
        out.append(f"row {self.row} decided for {self.wanted}: {why}")
        out += [f"guard rail: {limit}" for limit in a.limits]
        out += [f"not row {r.row} ({r.action}): {'; '.join(r.failed)}" for r in self.not_before]
        if self.never_asked:
            out.append(f"not asked: {', '.join(self.never_asked)}")
        for f in self.flips:
            without = f" without {', '.join(f.exclude)}" if f.exclude else ""
            out.append(f"would be {f.action}{without} (row {f.row}) if {f.change}")
        return tuple(out)


def _status_changes(d: Diagnosis) -> Iterator[tuple[str, Diagnosis]]:
    for status in reversed(LADDER):
        if status is not d.status:
            yield f"the diagnosis were {status} instead of {d.status}", replace(d, status=status)


def _class_changes(d: Diagnosis, taxonomy: Mapping[str, ClassInfo]) -> Iterator[tuple[str, Diagnosis]]:
    runner = d.runner_up
    if runner is not None and runner.failure_class in taxonomy:
        proof = f", which takes: {runner.flips_if}" if runner.flips_if else ""
        info = taxonomy[runner.failure_class]
        yield (
            f"the runner-up {runner.failure_class} were the class{proof}",
            replace(d, failure_class=runner.failure_class, domain=info.domain),
        )


def _node_changes(d: Diagnosis, attempt: Attempt) -> Iterator[tuple[str, Diagnosis]]:
    if d.culprit.nodes:
        yield "no node were singled out", replace(d, culprit=Culprit())
    else:
        node = attempt.nodes[0] if attempt.nodes else _SOME_NODE
        at = replace(d, culprit=replace(d.culprit, nodes=(node,)))
        yield "the evidence named one node of the attempt", at
        if d.status not in (Status.ESTABLISHED, Status.SUPPORTED):
            surer = replace(at, status=Status.SUPPORTED)
            yield "the evidence named one node of the attempt and the diagnosis were supported", surer


def _history_changes(d: Diagnosis, history: History) -> Iterator[tuple[str, History]]:
    step = d.progress.last_step
    last = len(history.attempts)
    for extra in (1, 2, 3, 4):
        same = tuple(
            PastAttempt(restart=last + i, outcome=Outcome.FAILED, fingerprint=d.fingerprint, entity=d.entity,
                        first_step=step, last_step=step)
            for i in range(extra)
        )  # fmt: skip
        yield (
            f"{extra} more attempt{'s' if extra > 1 else ''} had failed by this root without getting further",
            History(attempts=(*history.attempts, *same)),
        )
    if history.attempts:
        yield "this were the first attempt", History()


def _further(d: Diagnosis, history: History) -> Iterator[tuple[str, Diagnosis]]:
    steps = [a.last_step for a in history.attempts if a.last_step is not None]
    if steps and d.progress.last_step is not None and d.progress.last_step <= max(steps):
        step = max(steps) + 1
        yield f"this attempt had got beyond step {step - 1}", replace(d, progress=replace(d.progress, last_step=step))
    elif d.progress.dialect is None:
        yield (
            "its progress were read and it had made no step",
            replace(d, progress=replace(d.progress, dialect="any", first_step=0, last_step=0)),
        )


def explain(
    diagnosis: Diagnosis,
    attempt: Attempt,
    *,
    policy: Policy,
    taxonomy: Mapping[str, ClassInfo],
    history: History = EMPTY_HISTORY,
    fleet: Fleet = EMPTY_FLEET,
    now_s: float = 0.0,
) -> PolicyExplanation:
    """The advice and everything about it. Equal arguments give an equal explanation."""

    def ask(d: Diagnosis, h: History) -> Advice:
        return advise(d, attempt, policy=policy, taxonomy=taxonomy, history=h, fleet=fleet, now_s=now_s)

    got = ask(diagnosis, history)
    at = next(i for i, r in enumerate(policy.rows) if r.id == got.reason_code)
    row = policy.rows[at]
    _, wanted = decide(diagnosis, policy, taxonomy, history)
    variants = [
        *((text, d, history) for text, d in _status_changes(diagnosis)),
        *((text, d, history) for text, d in _class_changes(diagnosis, taxonomy)),
        *((text, d, history) for text, d in _node_changes(diagnosis, attempt)),
        *((text, d, history) for text, d in _further(diagnosis, history)),
        *((text, diagnosis, h) for text, h in _history_changes(diagnosis, history)),
    ]
    flips: dict[tuple[Action, str, tuple[str, ...]], Flip] = {}
    for change, d, h in variants:
        other = ask(d, h)
        key = (other.action, other.reason_code, other.exclude_nodes)
        if (other.action, other.exclude_nodes) != (got.action, got.exclude_nodes) and key not in flips:
            flips[key] = Flip(change=change, action=other.action, row=other.reason_code, exclude=other.exclude_nodes)
    return PolicyExplanation(
        advice=got,
        row=row.id,
        held=tuple(c.text for c in checks(row.when, diagnosis, history)),
        wanted=wanted,
        not_before=tuple(
            RowAnswer(
                row=r.id,
                action=str(r.action or "taxonomy"),
                failed=tuple(c.text for c in checks(r.when, diagnosis, history) if not c.holds),
            )
            for r in policy.rows[:at]
        ),
        never_asked=tuple(r.id for r in policy.rows[at + 1 :]),
        flips=tuple(flips.values())[:MOST_FLIPS],
    )
