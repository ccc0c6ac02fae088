"""Diagnosis + history + limits -> Advice. The rows decide, the guard rails weaken, the laws stand in code.

Strength of actions, weakest first: none, hold, restart, restart_excluding. ``terminate`` ends a running attempt and is as
strong as a restart. A guard rail moves an action towards the weaker end and says so; it never moves it the other way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from attribution.model import (
    TRUSTED_SOURCES,
    Action,
    Advice,
    Attempt,
    Diagnosis,
    Domain,
    Exclusion,
    Outcome,
    Role,
    Source,
    Status,
)
from attribution.policy.conditions import at_least, holds
from attribution.policy.document import Limits, Policy, Row
from attribution.policy.history import Fleet, History
from attribution.signatures import ClassInfo

STRENGTH = {Action.NONE: 0, Action.HOLD: 1, Action.RESTART: 2, Action.TERMINATE: 2, Action.RESTART_EXCLUDING: 3}
#: Families whose faults no other node mends.
NEVER_EXCLUDED = ("storage.", "scheduler.", "user_code.", "data.", "checkpoint.", "healthy.")
#: Classes of an attempt that a person ended: the law that these are never restarted.
BY_A_PERSON = ("scheduler.cancelled", "scheduler.interrupted")
EMPTY_HISTORY = History()
EMPTY_FLEET = Fleet()


@dataclass(slots=True)
class _Draft:
    """The decision while it is being made."""

    action: Action
    row: Row
    exclude: list[Exclusion] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    because: list[str] = field(default_factory=list)
    delay_s: int = 0

    def weaken(self, action: Action, why: str) -> None:
        """Move to a weaker action; a stronger or equal one changes nothing."""
        if STRENGTH[action] < STRENGTH[self.action]:
            self.limits.append(why)
            self.action = action
            if action is not Action.RESTART_EXCLUDING:
                self.exclude = []


def decide(d: Diagnosis, policy: Policy, taxonomy: Mapping[str, ClassInfo], history: History) -> tuple[Row, Action]:
    """The first row that holds, and its action."""
    row = next(r for r in policy.rows if holds(r.when, d, history))
    if row.action is not None:
        return row, row.action
    known = taxonomy.get(d.failure_class or "")
    return row, known.action if known is not None else Action.NONE if d.outcome is Outcome.UNKNOWN else Action.RESTART


def advise(
    diagnosis: Diagnosis,
    attempt: Attempt,
    *,
    policy: Policy,
    taxonomy: Mapping[str, ClassInfo],
    history: History = EMPTY_HISTORY,
    fleet: Fleet = EMPTY_FLEET,
    now_s: float = 0.0,
    generation: int = 1,
) -> Advice:
    """Advice for one attempt. Pure: equal arguments give an equal advice, id and all."""
    row, action = decide(diagnosis, policy, taxonomy, history)
    draft = _Draft(action=action, row=row)
    _laws(draft, diagnosis, attempt)
    _exclusions(draft, diagnosis, attempt, policy.limits, fleet, now_s)
    _history_rails(draft, diagnosis, attempt, policy.limits, history)
    _offenders(draft, attempt, fleet)
    known = taxonomy.get(diagnosis.failure_class or "")
    return Advice(
        id=_id(diagnosis, attempt, policy, generation, draft),
        attempt=attempt.key,
        action=draft.action,
        generation=generation,
        exclude=tuple(draft.exclude),
        drain=_drain(draft, diagnosis, policy.limits),
        reason_code=row.id,
        reason=_reason(diagnosis, draft, known),
        fix=diagnosis.fix,
        because=(*diagnosis.because[:4], *draft.because),
        limits=tuple(draft.limits),
        evidence=tuple(f"{e.path}:{e.line}" for e in diagnosis.evidence[:8]),
        commands=commands(draft.action, attempt, tuple(x.node for x in draft.exclude)),
        delay_s=draft.delay_s,
        issued_at_s=now_s,
        valid_until_s=now_s + policy.limits.advice_valid_s,
        policy=policy.name,
        policy_digest=policy.digest[:16],
        status=diagnosis.status,
    )


def _laws(draft: _Draft, d: Diagnosis, attempt: Attempt) -> None:
    """What no document can change. Accounting's ``CANCELLED by UID`` outweighs what the log looks like."""
    by_a_person = (attempt.state or "").upper().startswith("CANCELLED BY")
    if by_a_person or d.failure_class in BY_A_PERSON or d.outcome is Outcome.CANCELLED:
        draft.weaken(Action.NONE, "law: what a person ended is not restarted")
    if d.outcome in (Outcome.COMPLETED, Outcome.RUNNING):
        draft.weaken(Action.NONE, "law: an attempt that is well is left alone")


def _exclusions(draft: _Draft, d: Diagnosis, attempt: Attempt, limits: Limits, fleet: Fleet, now_s: float) -> None:
    """Fill the exclusions of a restart_excluding, or weaken it to a plain restart where the evidence does not carry it."""
    if draft.action is not Action.RESTART_EXCLUDING:
        return
    allocation = set(attempt.nodes)
    named = _of_allocation(d.culprit.nodes, attempt.nodes)
    if (d.failure_class or "").startswith(NEVER_EXCLUDED) or d.domain is Domain.WORKLOAD:
        draft.weaken(Action.RESTART, "no other node mends a fault of this kind")
    elif not named and at_least(d.status, limits.exclusion_status_at_least):
        draft.limits.append("a node is at fault and the evidence does not name it: find it before the restart")
    elif not named:
        draft.weaken(Action.RESTART, "no node of this attempt is singled out, so none is excluded")
    elif not at_least(d.status, limits.exclusion_status_at_least):
        draft.weaken(
            Action.RESTART,
            f"a node is excluded at status {limits.exclusion_status_at_least} or better, this is {d.status}",
        )
    elif allocation and len(named) >= len(allocation) > 1:
        draft.weaken(Action.RESTART, "all nodes of the attempt are named: the fault is not one node's")
    else:
        _cap(draft, d, attempt, named, limits, fleet, now_s)


def _of_allocation(culprits: tuple[str, ...], allocation: tuple[str, ...]) -> list[str]:
    """The culprits in the allocation's own spelling, each once; any of them where the allocation is not known."""
    if not allocation:
        return list(dict.fromkeys(culprits))
    spelled = {_short(a): a for a in reversed(allocation)} | {a: a for a in allocation}
    return list(dict.fromkeys(spelled[k] for n in culprits if (k := n if n in spelled else _short(n)) in spelled))


def _short(name: str) -> str:
    """The first label of a host name. An address has none: its first number says nothing."""
    return name if name.replace(".", "").isdigit() else name.split(".", 1)[0]


def _cap(
    draft: _Draft, d: Diagnosis, attempt: Attempt, named: list[str], limits: Limits, fleet: Fleet, now_s: float
) -> None:
    partition = attempt.partition or ""
    size = fleet.partition_nodes.get(partition)
    room = min(limits.exclusions_per_job, limits.exclusions_per_hour - fleet.exclusions_last_hour)
    free = limits.exclusions_per_partition
    if size is not None:
        free = min(free, int(size * limits.exclusions_percent / 100.0))
    room = min(room, free - fleet.excluded.get(partition, 0))
    if room < len(named):
        draft.weaken(Action.RESTART, f"{len(named)} exclusions wanted, the caps leave room for {max(room, 0)}")
        return
    evidence = tuple(f"{e.path}:{e.line}" for e in d.evidence[:4])
    price = len(named) / size if size else None
    draft.exclude = [
        Exclusion(
            node=n,
            because=f"{d.failure_class}: {d.culprit.because or 'named by the evidence'}",
            evidence=evidence,
            until_s=now_s + limits.exclusion_hours * 3600.0,
            price=price,
        )
        for n in named
    ]


def _history_rails(draft: _Draft, d: Diagnosis, attempt: Attempt, limits: Limits, history: History) -> None:
    """Ceilings over all rows: they hold whatever a narrower row allows."""
    step = d.progress.last_step
    restarts = max(len(history.attempts), attempt.key.restart)  # what was never seen counts too
    if restarts >= limits.max_restarts:
        draft.weaken(Action.HOLD, f"{restarts} restarts are the most that the policy allows")
    if d.domain is not Domain.SCHEDULER:
        same = history.same_root_without_progress(d.fingerprint, step)
        if same >= limits.max_same_root_without_progress and d.domain is not Domain.INFRASTRUCTURE:
            draft.weaken(Action.HOLD, f"the same root {same} times before without progress")
        entity = history.same_entity_without_progress(d.fingerprint, d.entity, step)
        if entity >= limits.max_same_entity_without_progress:
            draft.weaken(Action.HOLD, f"the same root at the same {d.entity} {entity} times before without progress")
        stuck = history.failures_without_progress(step)
        if stuck >= limits.max_failures_without_progress:
            draft.weaken(Action.HOLD, f"{stuck} failures in a row without progress")
    quick = history.quick_failures(limits.crash_loop_within_s)
    start, end = attempt.start_time_s, attempt.end_time_s
    if start is not None and end is not None and end - start >= limits.crash_loop_within_s:
        quick = 0  # this one lived: whatever loop there was is over
    if quick and draft.action in (Action.RESTART, Action.RESTART_EXCLUDING):
        draft.delay_s = min(limits.backoff_s * 2 ** min(quick - 1, 20), limits.backoff_max_s)
        draft.because.append(
            f"{quick} attempts before lived under {limits.crash_loop_within_s} s: wait {draft.delay_s} s"
        )


def _offenders(draft: _Draft, attempt: Attempt, fleet: Fleet) -> None:
    """Repeat offenders are named to the reader and excluded by nobody: that takes evidence in this attempt."""
    here = [n for n in attempt.nodes if n in fleet.lemons]
    if here and draft.action is not Action.NONE:
        draft.because.append(f"repeat offender over all jobs, worth a look: {', '.join(here[:4])}")


def _drain(draft: _Draft, d: Diagnosis, limits: Limits) -> tuple[Exclusion, ...]:
    """Drains are advised only on the established word of a trusted source; a job's own log never drains a node."""
    told_by = {e.host for e in d.evidence if e.source in TRUSTED_SOURCES and e.role is Role.ROOT and e.host is not None}
    trusted = d.root is not None and d.root.source in TRUSTED_SOURCES and d.root.source is not Source.JOB_LOG
    if (
        not limits.drain
        or d.status is not Status.ESTABLISHED
        or not trusted
        or draft.action is not Action.RESTART_EXCLUDING
    ):
        return ()
    return tuple(x for x in draft.exclude if not told_by or _short(x.node) in {_short(h) for h in told_by})


def _reason(d: Diagnosis, draft: _Draft, known: ClassInfo | None) -> str:
    means = known.means if known is not None else "the evidence is not understood"
    tail = f" ({draft.row.reason})" if draft.row.reason and draft.row.id != "first_occurrence" else ""
    return f"{means}{tail}"


def commands(action: Action, attempt: Attempt, nodes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """What the Slurm adapter would run, as argument lists; empty for a job without a Slurm id."""
    job = attempt.key.job_id
    if not job.replace("_", "").isdigit():
        return ()
    if action is Action.RESTART:
        return (("scontrol", "requeue", job),)
    if action is Action.RESTART_EXCLUDING:
        if not nodes:  # an empty ExcNodeList would clear the user's own
            return ()
        return (
            ("scontrol", "requeuehold", job),
            ("scontrol", "update", f"JobId={job}", f"ExcNodeList={','.join(nodes)}"),
            ("scontrol", "release", job),
        )
    if action is Action.TERMINATE:
        return (("scancel", job),)
    return ()


def _id(d: Diagnosis, attempt: Attempt, policy: Policy, generation: int, draft: _Draft) -> str:
    parts = (
        str(attempt.key),
        d.failure_class,
        d.status,
        d.fingerprint,
        ",".join(d.culprit.nodes),
        policy.digest,
        generation,
        draft.action,
        draft.row.id,
        draft.delay_s,
        ",".join(x.node for x in draft.exclude),
    )
    return "adv-" + hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def is_actionable(advice: Advice, newest: Advice | None, now_s: float) -> bool:
    """True where an advice may still be acted on: it is the newest of its attempt, not expired, and wants something."""
    if (
        newest is not None
        and (newest.generation, newest.id) > (advice.generation, advice.id)
        and newest.attempt == advice.attempt
    ):
        return False
    if advice.valid_until_s is not None and now_s > advice.valid_until_s:
        return False
    if advice.action is Action.RESTART_EXCLUDING:
        return bool(advice.exclude)
    return advice.action in (Action.RESTART, Action.TERMINATE)
