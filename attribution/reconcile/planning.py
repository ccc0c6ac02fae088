"""Advice + World -> what to do next. Pure: same input, same plan.

Level-triggered: the plan follows from what the scheduler shows now, so a command that was lost is simply planned again
and one that was done is not. The ledger adds what no scheduler can tell: whether the requeue that we see is ours.
Whatever is not understood is a wait.

An attempt is job id + submit time + restart count. Slurm gives a requeued job a new submit time and a restart count one
higher; that successor is all we may prepare, and only while it has not started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attribution.model import Action, Advice, Disposition, Status
from attribution.reconcile.case import EVIDENCE, Case
from attribution.reconcile.history import History, histories, within_hour
from attribution.reconcile.terms import LedgerEntry, Limits, Reason, Verdict
from attribution.schedulers.base import FINAL_REPLIES, OWN_PREFIX, Hold, Job, Node, ReplyKind, Step, StepKind, World

RESTARTABLE = frozenset({"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
ENDED = RESTARTABLE | {"COMPLETED", "CANCELLED", "BOOT_FAIL", "DEADLINE", "PREEMPTED"}
_RESTARTS = (Action.RESTART, Action.RESTART_EXCLUDING)
_STOPS = frozenset({StepKind.REQUEUE_HOLD, StepKind.CANCEL})
_SLURM_DELAY_S = 3600  # a begin time further off was not set by a requeue
#: slurmd refuses a start on the same node within the second of the requeue ("Job credential revoked") and the attempt
#: is lost as FAILED; the submit time of a requeued job is the second of its requeue.
_CREDENTIAL_S = 2


def plan(
    world: World, advice: Sequence[Advice], ledger: Sequence[LedgerEntry], limits: Limits, now_s: float
) -> tuple[Step | Verdict, ...]:
    """One Step or Verdict per Advice, in the order given; at most one Step per job and per node."""
    past = histories(ledger)
    newest: dict[str, int] = {}
    for one in advice:
        newest[str(one.attempt)] = max(newest.get(str(one.attempt), 0), one.generation)
    stops, drains = within_hour(ledger, _STOPS, now_s), within_hour(ledger, frozenset({StepKind.DRAIN}), now_s)
    taken: set[str] = set()
    found: list[Step | Verdict] = []
    for one in advice:
        key = str(one.attempt)
        history = past.get(key, History())
        case = Case(world=world, advice=one, history=history, limits=limits, now_s=now_s, stops=stops, drains=drains)
        final = history.final.get((one.id, one.generation))
        if final is not None:
            found.append(final)
        elif one.generation < newest[key]:
            found.append(case.give_up(Reason.SUPERSEDED, f"by generation {newest[key]}"))
        else:
            found.append(_one_step(case, _decide(case), taken))
            chosen = found[-1]
            if isinstance(chosen, Step):
                stops += chosen.kind in _STOPS
                drains += chosen.kind is StepKind.DRAIN
    return tuple(found)


def _one_step(case: Case, decided: Step | Verdict, taken: set[str]) -> Step | Verdict:
    if isinstance(decided, Verdict):
        return decided
    subject = f"node {decided.node.name}" if decided.node else f"job {decided.job.raw_id if decided.job else ''}"
    if subject in taken:
        return case.wait(Reason.ONE_STEP_PER_JOB)
    taken.add(subject)
    return decided


def _decide(case: Case) -> Step | Verdict:
    blocked = _gate(case)
    if blocked is not None:
        return blocked
    case = locate(case)
    if case.job is None:
        return _settled(case, _absent(case))
    return _settled(case, identify(case) or _expire(case, _allowed(case) or _act(case)))


def _expire(case: Case, decided: Step | Verdict) -> Step | Verdict:
    """An expired Advice begins nothing; it only finishes a restart whose held successor is of our making."""
    if not expired(case.advice, case.limits, case.now_s) or _ours_held(case):
        return decided
    waits = isinstance(decided, Verdict) and decided.disposition is Disposition.PENDING
    if waits or (isinstance(decided, Step) and case.job is not None and _is_attempt(case, case.job)):
        return case.give_up(Reason.ADVICE_EXPIRED, decided.reason if isinstance(decided, Verdict) else "")
    return decided


def _is_attempt(case: Case, job: Job) -> bool:
    return job.restart == case.advice.attempt.restart


def _ours_held(case: Case) -> bool:
    job = case.job
    return job is not None and job.hold is Hold.REQUEUE and case.history.requeued and not _is_attempt(case, job)


def _gate(case: Case) -> Verdict | None:
    """Reasons not even to look at the job."""
    world, advice, limits = case.world, case.advice, case.limits
    if advice.action is Action.NONE and not case.history.requeued:
        return case.converged()
    if limits.killed:
        return case.wait(Reason.KILL_SWITCH)
    if not world.whole:
        return case.wait(Reason.VIEW_INCOMPLETE, "; ".join(world.problems)[:300])
    age_s = case.now_s - world.observed_at_s
    if age_s > limits.max_view_age_s or age_s < -1.0 or world.observed_at_s < case.history.last_act_s:
        return case.wait(Reason.VIEW_STALE, f"view is {age_s:.1f} s old")
    if advice.attempt.cluster and world.cluster and advice.attempt.cluster != world.cluster:
        return case.wait(Reason.OTHER_CLUSTER, advice.attempt.cluster)
    if advice.attempt.submit_time_s is None:
        return case.wait(Reason.IDENTITY_INCOMPLETE, "no submit time")
    if not case.history.requeued and expired(advice, limits, case.now_s):
        return case.give_up(Reason.ADVICE_EXPIRED)
    return None


def expired(advice: Advice, limits: Limits, now_s: float) -> bool:
    """Whether it is too late to begin."""
    until = advice.valid_until_s
    if until is None and advice.issued_at_s is not None:
        until = advice.issued_at_s + limits.validity_s
    return until is not None and now_s > until


def locate(case: Case) -> Case:
    """The case with its job. ``67+1`` and the raw id of a part mean the leader of a heterogeneous job."""
    world, name = case.world, case.advice.attempt.job_id.partition("+")[0]
    job = world.jobs.get(name)
    if job is None and name.isascii() and name.isdigit():
        job = world.by_raw_id(int(name))
    parts: tuple[Job, ...] = ()
    if job is not None and job.het_leader:
        parts = world.components(job.het_leader)
        job = parts[0]
    return replace(case, job=job, parts=parts)


def _absent(case: Case) -> Step | Verdict:
    """The controller does not know the job (any more): MinJobAge is over, or it never was."""
    if case.advice.action in _RESTARTS:
        return case.give_up(Reason.JOB_GONE, "the controller has forgotten it; resubmit by hand")
    return case.converged()


def identify(case: Case) -> Verdict | None:
    """Whether the job shown is the attempt of the Advice or its direct successor."""
    job, key = case.job, case.advice.attempt
    assert job is not None and key.submit_time_s is not None
    if job.array_pending or (job.array_id is not None and key.job_id == str(job.array_id)):
        # the raw id of an array's last task is the id of the whole array
        return case.give_up(Reason.ARRAY_ID_AMBIGUOUS, f"name the task: {job.array_id}_N")
    ahead = job.restart - key.restart
    if ahead == 0 and job.submit_time_s != key.submit_time_s:
        return case.give_up(Reason.IDENTITY_MISMATCH, f"job {job.id} was submitted at {job.submit_time_s}")
    if ahead < 0:
        if job.submit_time_s > key.submit_time_s:
            return case.give_up(Reason.IDENTITY_MISMATCH, f"job {job.id} was submitted at {job.submit_time_s}")
        return case.wait(Reason.ROLLED_BACK, f"restart {job.restart} is shown")
    if ahead == 1 and job.submit_time_s < key.submit_time_s:
        return case.give_up(Reason.IDENTITY_MISMATCH)
    if ahead > 1:
        return case.give_up(Reason.MOVED_ON, f"restart {job.restart} is shown")
    return None


def _allowed(case: Case) -> Verdict | None:
    job, limits = case.job, case.limits
    assert job is not None
    if limits.partitions is not None and not set(job.partition.split(",")) <= limits.partitions:
        return case.wait(Reason.PARTITION_NOT_ALLOWED, job.partition)
    if limits.require_opt_in and not job.opted_in:
        return case.wait(Reason.NOT_OPTED_IN)
    return None


def _act(case: Case) -> Step | Verdict:
    action = case.advice.action
    decided = _ACTIONS[action](case)
    if isinstance(decided, Verdict) and decided.disposition is Disposition.CONVERGED:
        return _drains(case) or decided
    return decided


def _settled(case: Case, decided: Step | Verdict) -> Step | Verdict:
    """What slurmctld shows can be forgotten by its crash for some seconds: an end is believed when it is seen twice.

    Giving up needs that only where a job of ours might be left held.
    """
    if isinstance(decided, Step) or decided.disposition is Disposition.PENDING:
        return decided
    if decided.disposition is Disposition.ABANDONED and not case.history.requeued:
        return decided
    end = str(decided.reason)
    since_s = case.history.settling_since_s.get((case.advice.id, case.advice.generation, end))
    if since_s is None or since_s < case.history.last_act_s:
        return case.wait(Reason.SETTLING, end)
    seen_s = case.world.observed_at_s - since_s
    return decided if seen_s >= case.limits.settle_s else case.wait(Reason.SETTLING, end)


def attempt_step(case: Case, kind: StepKind, **more: object) -> Step | Verdict:
    """The step, unless it was refused for good, tried too often, tried too recently, or over the hourly limit."""
    job, limits, advice = case.job, case.limits, case.advice
    node = more.get("node")
    tries = case.history.of(kind, node.name if isinstance(node, Node) else "")
    if (advice.id, kind) in case.history.declined:
        return case.give_up(Reason.DECLINED, str(kind))
    if tries.count and tries.last in FINAL_REPLIES:
        return case.give_up(_REFUSALS[tries.last], tries.text)
    if tries.count >= limits.max_tries:
        return case.give_up(Reason.TRIES_EXHAUSTED, f"{kind} was tried {tries.count} times")
    pause_s = min(limits.backoff_s * 2 ** (tries.count - 1), limits.max_backoff_s) if tries.count else 0.0
    if case.now_s - tries.last_s < pause_s:
        return case.wait(Reason.BACKING_OFF, str(kind))
    if kind in _STOPS and not case.history.requeued and case.stops >= limits.max_stops_per_hour:
        return case.wait(Reason.RATE_LIMITED, f"{case.stops} stops within the hour")
    return Step(
        kind=kind,
        advice_id=advice.id,
        attempt=advice.attempt,
        generation=advice.generation,
        job=None if kind is StepKind.DRAIN else job,
        because=advice.reason[:200],
        **more,  # type: ignore[arg-type]
    )


_REFUSALS = {
    ReplyKind.DISABLED: Reason.NOT_REQUEUEABLE,
    ReplyKind.DENIED: Reason.NOT_PERMITTED,
    ReplyKind.INVALID: Reason.REFUSED,
}


def _restart(case: Case) -> Step | Verdict:
    job = case.job
    assert job is not None
    if job.restart == case.advice.attempt.restart:
        return _stop_attempt(case, job)
    if job.completing:
        return case.wait(Reason.JOB_COMPLETING)
    if job.state == "PENDING":
        return _prepare_successor(case, job)
    if job.state == "CANCELLED":
        return case.give_up(Reason.JOB_CANCELLED)
    if job.state != "RUNNING" and job.state not in ENDED:
        return case.wait(Reason.STATE_UNKNOWN, job.state)
    # it has run: nothing can be set any more
    if not _missing(case):
        return case.converged()
    return case.give_up(Reason.OVERRIDDEN if case.history.requeued else Reason.MOVED_ON, "started without exclusions")


def _stop_attempt(case: Case, job: Job) -> Step | Verdict:
    """The attempt of the Advice itself is shown: stop it if it runs, and have it requeued, held."""
    if job.completing:
        return case.wait(Reason.JOB_COMPLETING)
    if job.state == "COMPLETED":
        return case.give_up(Reason.JOB_COMPLETED)
    if job.state == "CANCELLED":
        return case.give_up(Reason.JOB_CANCELLED)
    if job.state != "RUNNING" and job.state not in RESTARTABLE:
        return case.wait(Reason.STATE_UNKNOWN, job.state)
    if any(part.hold is not Hold.NONE or part.priority == 0 for part in case.parts or (job,)):
        return case.wait(Reason.HELD_BY_PERSON, job.reason)
    if not job.batch or job.requeue is False:
        return case.give_up(Reason.NOT_REQUEUEABLE, "resubmit by hand")
    if job.max_restarts is not None and job.restart >= job.max_restarts:
        return case.give_up(
            Reason.LIMIT_EXCEEDED, f"restart {job.restart}, the job's comment allows {job.max_restarts}"
        )
    refused = _check_exclusions(case)
    if refused is not None:
        return refused
    if case.advice.delay_s and case.advice.issued_at_s is not None:
        due_s = case.advice.issued_at_s + case.advice.delay_s
        if case.now_s < due_s:
            return case.wait(Reason.DELAYED, f"{due_s - case.now_s:.0f} s more")
    if not case.history.of(EVIDENCE).maybe_done:
        return attempt_step(case, EVIDENCE)
    return attempt_step(case, StepKind.REQUEUE_HOLD, stop_running=job.state == "RUNNING")


def _check_exclusions(case: Case) -> Verdict | None:
    """Whether the exclusions exist, leave enough nodes and stay inside the limits; asked before a first touch."""
    if case.advice.action is Action.RESTART_EXCLUDING and not case.advice.exclude_nodes:
        return case.give_up(Reason.UNKNOWN_NODE, "a node is at fault and none is named: find it, then restart")
    unknown = sorted(set(case.advice.exclude_nodes) - set(case.world.nodes))
    if case.advice.action is Action.RESTART_EXCLUDING and unknown:
        return case.give_up(Reason.UNKNOWN_NODE, ",".join(unknown)[:200])
    new = case.exclude
    if not new:
        return None
    limits = case.limits
    for part in case.parts or ((case.job,) if case.job else ()):
        pool = case.world.partition_nodes(part.partition)
        allowed = max(1, min(limits.max_exclude_nodes, int(limits.max_exclude_share * len(pool))))
        if len(set(new) & set(pool)) > allowed:
            return case.give_up(Reason.LIMIT_EXCEEDED, f"{len(new)} nodes, {allowed} allowed")
        if set(part.required) & set(new):
            return case.give_up(Reason.PINNED_NODES, ",".join(part.required)[:200])
        left = len(set(pool) - set(new) - set(part.excluded))
        if left < part.node_count:
            return case.give_up(Reason.INFEASIBLE_CONSTRAINTS, f"{left} nodes left, {part.node_count} needed")
    return None


def _missing(case: Case) -> bool:
    """Whether an exclusion of the Advice is not in place."""
    wanted = set(case.exclude)
    return any(not wanted <= set(part.excluded) for part in case.parts or ((case.job,) if case.job else ()))


def _prepare_successor(case: Case, job: Job) -> Step | Verdict:
    """The successor waits: exclusions, mark, release, in this order; someone else's hold is theirs."""
    ours = case.history.requeued
    releasable = job.hold is Hold.SYSTEM or (job.hold is Hold.REQUEUE and ours)
    if job.hold is not Hold.NONE and not releasable:
        return case.wait(Reason.HELD_BY_PERSON, job.reason)
    if _missing(case):
        if case.history.maybe_done(StepKind.RELEASE) and not releasable:
            return case.give_up(Reason.OVERRIDDEN, "exclusions were taken off")
        refused = _check_exclusions(case)
        if refused is not None:
            return refused
        return _constrain(case, job)
    if not releasable:
        return _start(case, job)
    text = f"{OWN_PREFIX}{case.advice.id}"
    foreign = bool(job.admin_comment) and not job.admin_comment.startswith(OWN_PREFIX)
    marks = case.history.of(StepKind.MARK)
    wanted = case.limits.mark and not foreign and job.admin_comment != text and marks.count < 2
    if wanted and (not marks.count or marks.last not in FINAL_REPLIES):
        return attempt_step(case, StepKind.MARK, text=text)
    return attempt_step(case, StepKind.RELEASE)


def _constrain(case: Case, job: Job) -> Step | Verdict:
    parts = case.parts or (job,)
    for part in parts:
        if not set(case.exclude) <= set(part.excluded):
            union = tuple(sorted(set(part.excluded) | set(case.exclude)))
            return attempt_step(case, StepKind.UPDATE_CONSTRAINTS, exclude=union, targets=(_command_id(part),))
    raise AssertionError("nothing is missing")


def _command_id(part: Job) -> str:
    """What commands name: parts of a heterogeneous job by their own raw id."""
    return str(part.raw_id) if part.het_leader else part.id


def _start(case: Case, job: Job) -> Step | Verdict:
    """Not held, exclusions in place. A requeued job waits for `cred_expire` (121 s) more; that can be cut short."""
    if "BadConstraints" in job.reason:
        return case.give_up(Reason.INFEASIBLE_CONSTRAINTS, f"scontrol update JobId={job.id} ExcNodeList=")
    waits_s = job.eligible_time_s - case.now_s
    tries = case.history.of(StepKind.START_NOW)
    ours = case.history.requeued and case.history.maybe_done(StepKind.RELEASE)
    refused = tries.count >= 3 or (tries.count and tries.last in FINAL_REPLIES)
    if ours and 1 < waits_s <= _SLURM_DELAY_S and not refused:
        if case.now_s < job.submit_time_s + _CREDENTIAL_S:
            return case.wait(Reason.BACKING_OFF, "the old attempt's credential was revoked this very second")
        return attempt_step(case, StepKind.START_NOW)
    return case.converged()


def _hold(case: Case) -> Step | Verdict:
    """A person must mend something first: all that is wanted is that it does not run. A running job is left to end."""
    job = case.job
    assert job is not None
    if job.restart != case.advice.attempt.restart:
        if case.history.requeued and job.state == "PENDING" and job.hold is not Hold.NONE:
            return case.converged()
        return case.give_up(Reason.MOVED_ON)
    if job.completing:
        return case.wait(Reason.JOB_COMPLETING)
    if job.state in ENDED:
        return case.converged()
    return case.wait(Reason.JOB_RUNNING if job.state == "RUNNING" else Reason.STATE_UNKNOWN, job.state)


def _terminate(case: Case) -> Step | Verdict:
    """End the attempt. A successor is never cancelled, not even one that we hold: that could not be taken back."""
    job = case.job
    assert job is not None
    if not _is_attempt(case, job):
        return case.give_up(Reason.MOVED_ON)
    if job.completing:
        return case.wait(Reason.JOB_COMPLETING)
    if job.state in ENDED:
        return case.converged()
    if job.hold is not Hold.NONE:
        return case.wait(Reason.HELD_BY_PERSON, job.reason)
    if job.state not in ("RUNNING", "SUSPENDED"):
        return case.wait(Reason.STATE_UNKNOWN, job.state)
    if not case.history.of(EVIDENCE).maybe_done:
        return attempt_step(case, EVIDENCE)
    return attempt_step(case, StepKind.CANCEL)


def _none(case: Case) -> Step | Verdict:
    """Nothing is wanted any more: only a hold of ours from an earlier generation is taken off."""
    assert case.job is not None
    return case.converged() if case.job.restart == case.advice.attempt.restart else _restart(case)


def foresee(step: Step, advice: Advice, limits: Limits) -> tuple[Step, ...]:
    """The steps that would follow a requeue if everything went as meant; for people to read, never to act on."""
    job = step.job
    if step.kind is StepKind.SAVE_EVIDENCE and job is not None:
        if advice.action is Action.TERMINATE:
            return (replace(step, kind=StepKind.CANCEL),)
        stop = replace(step, kind=StepKind.REQUEUE_HOLD, stop_running=job.state == "RUNNING")
        return (stop, *foresee(stop, advice, limits))
    if step.kind is not StepKind.REQUEUE_HOLD or job is None:
        return ()
    later = replace(step, stop_running=False)
    found = []
    if advice.action is Action.RESTART_EXCLUDING:
        union = tuple(sorted(set(job.excluded) | set(advice.exclude_nodes)))
        found.append(replace(later, kind=StepKind.UPDATE_CONSTRAINTS, exclude=union))
    if limits.mark and not job.admin_comment:
        found.append(replace(later, kind=StepKind.MARK, text=f"{OWN_PREFIX}{advice.id}"))
    found += [replace(later, kind=StepKind.RELEASE), replace(later, kind=StepKind.START_NOW)]
    return tuple(found)


_ACTIONS = {
    Action.NONE: _none,
    Action.RESTART: _restart,
    Action.RESTART_EXCLUDING: _restart,
    Action.HOLD: _hold,
    Action.TERMINATE: _terminate,
}


def _drains(case: Case) -> Step | None:
    """The next drain, if drains are allowed and the evidence is trusted. Nodes that anybody drained are left alone."""
    limits, advice = case.limits, case.advice
    if not limits.allow_drain or advice.status not in (Status.ESTABLISHED, Status.SUPPORTED):
        return None
    for wanted in sorted(advice.drain, key=lambda x: x.node):
        node = case.world.nodes.get(wanted.node)
        if node is None or node.drained or node.reason or case.drains >= limits.max_drains_per_hour:
            continue
        if not _drain_fits(case, node):
            continue
        text = f"{OWN_PREFIX}{advice.id} {wanted.because}"
        step = attempt_step(case, StepKind.DRAIN, node=node, text=text)
        if isinstance(step, Step):
            return step
    return None


def _drain_fits(case: Case, node: Node) -> bool:
    """Recovery's drains stay under their share in every partition of the node, one node being always allowed."""
    for partition in node.partitions:
        pool = case.world.partition_nodes(partition)
        ours = sum(case.world.nodes[name].ours for name in pool)
        if ours + 1 > max(1, int(case.limits.max_drained_share * len(pool))):
            return False
    return True
