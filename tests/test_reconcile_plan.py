"""What to do next, read as examples: one Advice, one picture of the cluster, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.model import Action, Advice, AttemptKey, Disposition, Exclusion, Status
from attribution.policy.optin import parse_comment
from attribution.reconcile import Event, LedgerEntry, Limits, Mode, Reason, Verdict, plan
from attribution.schedulers.base import Hold, Job, Node, ReplyKind, Step, StepKind, World

NOW = 1_796_000_100.0
PLAIN = Limits()
KEY = AttemptKey(job_id="7", cluster="lab", submit_time_s=1_796_000_000, restart=0)
FAILED = Job(
    id="7",
    raw_id=7,
    state="FAILED",
    submit_time_s=1_796_000_000,
    restart=0,
    user="alice",
    cluster="lab",
    partition="main",
    requeue=True,
    nodes=("gpu-001", "gpu-002"),
    node_count=2,
    start_time_s=1_796_000_001,
    opted_in=True,
)
HELD = replace(
    FAILED, state="PENDING", restart=1, submit_time_s=1_796_000_050, hold=Hold.REQUEUE, priority=0, nodes=(),
    reason="job requeued in held state",
)  # fmt: skip
READY = replace(HELD, hold=Hold.NONE, priority=9, excluded=("gpu-001",), eligible_time_s=1_796_000_090, reason="None")
ADVICE = Advice(
    id="adv-1",
    attempt=KEY,
    action=Action.RESTART_EXCLUDING,
    exclude=(Exclusion(node="gpu-001", because="Xid 79"),),
    issued_at_s=NOW - 50,
    valid_until_s=NOW + 3600,
    status=Status.ESTABLISHED,
)
RESTART = replace(ADVICE, action=Action.RESTART, exclude=())


def world(*jobs: Job, **more: object) -> World:
    names = [f"gpu-{n:03d}" for n in range(1, 9)]
    nodes = {name: Node(name=name, state="IDLE", partitions=("main",)) for name in names}
    seen = World(observed_at_s=NOW, cluster="lab", jobs={job.id: job for job in jobs}, nodes=nodes)
    return replace(seen, **more)  # type: ignore[arg-type]


def did(*steps: StepKind, reply: ReplyKind | None = ReplyKind.ACCEPTED, at_s: float = NOW - 30) -> list[LedgerEntry]:
    """Ledger of steps given by act mode; reply None is a crash before the answer."""
    entries: list[LedgerEntry] = []
    for step in steps:
        intent = LedgerEntry(
            seq=len(entries) + 1, time_s=at_s, event=Event.INTENT, mode=Mode.ACT, advice_id="adv-1",
            attempt=str(KEY), step=step, subject="7",
        )  # fmt: skip
        entries.append(intent)
        if reply is not None:
            entries.append(replace(intent, seq=len(entries) + 1, event=Event.RESULT, reply=reply, intent=intent.seq))
    return entries


def numbered(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Several pieces as one ledger; a result follows its intent."""
    return [replace(e, seq=n, intent=n - 1 if e.event is Event.RESULT else None) for n, e in enumerate(entries, 1)]


def settled(reason: Reason, at_s: float = NOW - 20) -> LedgerEntry:
    return LedgerEntry(
        seq=99, time_s=at_s, event=Event.VERDICT, mode=Mode.ACT, advice_id="adv-1", attempt=str(KEY),
        disposition=Disposition.PENDING, reason=Reason.SETTLING, text=str(reason),
    )  # fmt: skip


EVIDENCE = did(StepKind.SAVE_EVIDENCE)
REQUEUED = did(StepKind.SAVE_EVIDENCE, StepKind.REQUEUE_HOLD)


def one(
    seen: World,
    advice: Advice = ADVICE,
    ledger: Sequence[LedgerEntry] = (),
    limits: Limits = PLAIN,
    now_s: float = NOW,
) -> str:
    """The kind of the step, or the reason of the verdict."""
    (found,) = plan(seen, [advice], numbered(ledger), limits, now_s)
    return str(found.kind if isinstance(found, Step) else found.reason)


def test_the_order_of_a_restart_elsewhere() -> None:
    marked = replace(HELD, excluded=("gpu-001",), admin_comment="recovery:adv-1")
    released = [*REQUEUED, *did(StepKind.RELEASE)]
    assert one(world(FAILED)) == "SAVE_EVIDENCE"
    assert one(world(FAILED), ledger=EVIDENCE) == "SLURM_REQUEUE_HOLD"
    assert one(world(HELD), ledger=REQUEUED) == "SLURM_UPDATE_CONSTRAINTS"
    assert one(world(replace(HELD, excluded=("gpu-001",))), ledger=REQUEUED) == "SLURM_MARK"
    assert one(world(marked), ledger=REQUEUED) == "SLURM_RELEASE"
    assert one(world(replace(READY, eligible_time_s=int(NOW) + 90)), ledger=released) == "SLURM_START_NOW"
    assert one(world(READY), ledger=released) == "SETTLING"
    assert one(world(READY), ledger=[*released, settled(Reason.DESIRED_STATE_OBSERVED)]) == "DESIRED_STATE_OBSERVED"


def test_a_start_is_not_pressed_in_the_second_of_the_requeue() -> None:
    """slurmd would refuse it: Job credential revoked."""
    released = [*REQUEUED, *did(StepKind.RELEASE)]
    fresh = replace(READY, submit_time_s=int(NOW) - 1, eligible_time_s=int(NOW) + 90)
    assert one(world(fresh), ledger=released) == "BACKING_OFF"


def test_exclusions_are_united_with_the_users_own() -> None:
    (step,) = plan(world(replace(HELD, excluded=("gpu-008",))), [ADVICE], numbered(REQUEUED), Limits(), NOW)
    assert isinstance(step, Step) and step.exclude == ("gpu-001", "gpu-008")


def test_a_running_attempt_is_requeued_under_guard() -> None:
    (step,) = plan(world(replace(FAILED, state="RUNNING")), [ADVICE], numbered(EVIDENCE), Limits(), NOW)
    assert isinstance(step, Step) and step.kind is StepKind.REQUEUE_HOLD and step.stop_running
    (step,) = plan(world(FAILED), [ADVICE], numbered(EVIDENCE), Limits(), NOW)
    assert isinstance(step, Step) and not step.stop_running


def test_what_was_lost_is_planned_again_and_what_was_done_is_not() -> None:
    assert one(world(FAILED), ledger=REQUEUED) == "SLURM_REQUEUE_HOLD", "acknowledged, but the job is as before"
    died = [*EVIDENCE, *did(StepKind.REQUEUE_HOLD, reply=None)]
    assert one(world(HELD), ledger=died) == "SLURM_UPDATE_CONSTRAINTS", "we died before the answer; it was done"
    unsure = [*EVIDENCE, *did(StepKind.REQUEUE_HOLD, reply=ReplyKind.UNKNOWN)]
    assert one(world(HELD), ledger=unsure) == "SLURM_UPDATE_CONSTRAINTS"


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (replace(FAILED, state="COMPLETED"), "JOB_COMPLETED"),
        (replace(FAILED, state="CANCELLED"), "JOB_CANCELLED"),
        (replace(FAILED, requeue=False), "NOT_REQUEUEABLE"),
        (replace(FAILED, batch=False), "NOT_REQUEUEABLE"),
        (replace(FAILED, required=("gpu-001",)), "PINNED_NODES"),
        (replace(FAILED, node_count=8), "INFEASIBLE_CONSTRAINTS"),
        (replace(FAILED, submit_time_s=1_796_000_077), "IDENTITY_MISMATCH"),
        (replace(FAILED, restart=2, submit_time_s=1_796_000_099), "MOVED_ON"),
        (replace(FAILED, state="RUNNING", restart=1, submit_time_s=1_796_000_090), "MOVED_ON"),
        (replace(FAILED, array_id=7, array_task=3), "ARRAY_ID_AMBIGUOUS"),
        (replace(FAILED, array_id=7, array_pending="0-3"), "ARRAY_ID_AMBIGUOUS"),
    ],
)
def test_what_is_given_up(job: Job, reason: str) -> None:
    assert one(world(job)) == reason


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (replace(FAILED, completing=True, state="COMPLETING"), "JOB_COMPLETING"),
        (replace(FAILED, state="CONFIGURING"), "STATE_UNKNOWN"),
        (replace(FAILED, state="SOMETHING_NEW"), "STATE_UNKNOWN"),
        (replace(FAILED, state="PENDING"), "STATE_UNKNOWN"),
        (replace(FAILED, state="RUNNING", hold=Hold.PERSON, priority=0), "HELD_BY_PERSON"),
        (replace(FAILED, priority=0, hold=Hold.PERSON), "HELD_BY_PERSON"),
        (HELD, "HELD_BY_PERSON"),  # requeued and held, and not by us
        (replace(HELD, hold=Hold.PERSON), "HELD_BY_PERSON"),
        (replace(FAILED, opted_in=False), "NOT_OPTED_IN"),
        (replace(FAILED, opted_in=None), "NOT_OPTED_IN"),
    ],
)
def test_what_is_waited_for(job: Job, reason: str) -> None:
    assert one(world(job)) == reason


def test_a_doubtful_view_means_wait() -> None:
    assert one(world(FAILED, whole=False)) == "VIEW_INCOMPLETE"
    assert one(world(FAILED, observed_at_s=NOW - 31)) == "VIEW_STALE"
    assert one(world(FAILED, observed_at_s=NOW + 60)) == "VIEW_STALE"
    assert one(world(HELD, observed_at_s=NOW - 10), ledger=did(StepKind.REQUEUE_HOLD, at_s=NOW - 5)) == "VIEW_STALE"
    assert one(world(FAILED, cluster="elsewhere")) == "OTHER_CLUSTER"
    assert one(world(FAILED), replace(ADVICE, attempt=AttemptKey(job_id="7"))) == "IDENTITY_INCOMPLETE"
    rolled_back = replace(ADVICE, attempt=replace(KEY, restart=1))
    assert one(world(replace(FAILED, submit_time_s=1_795_999_000)), rolled_back) == "ROLLED_BACK"


def test_the_owner_may_end_it_earlier_than_the_policy() -> None:
    asked = parse_comment('{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 2}}')
    assert asked.max_restarts == 2
    allowed = replace(FAILED, max_restarts=asked.max_restarts)
    assert one(world(allowed)) == "SAVE_EVIDENCE"
    again = replace(ADVICE, attempt=replace(KEY, restart=2))
    assert one(world(replace(allowed, restart=2)), again) == "LIMIT_EXCEEDED"
    assert one(world(replace(FAILED, restart=2)), again) == "SAVE_EVIDENCE"


def test_an_exclusion_without_a_node_is_not_carried_out() -> None:
    assert one(world(FAILED), replace(ADVICE, action=Action.RESTART_EXCLUDING, exclude=())) == "UNKNOWN_NODE"


def test_switches_and_lists() -> None:
    assert one(world(FAILED), limits=Limits(killed=True)) == "KILL_SWITCH"
    assert one(world(FAILED), limits=Limits(partitions=frozenset({"canary"}))) == "PARTITION_NOT_ALLOWED"
    several = replace(FAILED, partition="main,canary")
    assert one(world(several), limits=Limits(partitions=frozenset({"canary"}))) == "PARTITION_NOT_ALLOWED"
    assert one(world(several), limits=Limits(partitions=frozenset({"canary", "main"}))) == "SAVE_EVIDENCE"
    assert one(world(replace(FAILED, opted_in=False)), limits=Limits(require_opt_in=False)) == "SAVE_EVIDENCE"


def test_expiry_ends_what_has_not_begun_and_lets_finish_what_has() -> None:
    late = NOW + 7200
    fresh = world(FAILED, observed_at_s=late)
    assert one(fresh, now_s=late) == "ADVICE_EXPIRED"
    assert one(world(HELD, observed_at_s=late), ledger=REQUEUED, now_s=late) == "SLURM_UPDATE_CONSTRAINTS"
    assert one(world(HELD, observed_at_s=late), ledger=EVIDENCE, now_s=late) == "ADVICE_EXPIRED"
    assert one(fresh, replace(ADVICE, valid_until_s=None, issued_at_s=NOW - 86_400), now_s=late) == "ADVICE_EXPIRED"


def test_a_newer_generation_supersedes() -> None:
    newer = replace(ADVICE, id="adv-2", generation=2, action=Action.HOLD)
    old, new = plan(world(FAILED), [ADVICE, newer], (), Limits(), NOW)
    assert isinstance(old, Verdict) and old.reason is Reason.SUPERSEDED
    assert isinstance(new, Verdict) and new.reason is Reason.SETTLING


def test_what_an_older_generation_began_is_brought_to_an_end() -> None:
    hold = replace(ADVICE, action=Action.HOLD, generation=2)
    assert one(world(HELD), hold, REQUEUED) == "SETTLING", "held is what is wanted"
    nothing = replace(ADVICE, action=Action.NONE, generation=2)
    marked = replace(HELD, admin_comment="recovery:adv-1")
    assert one(world(marked), nothing, REQUEUED) == "SLURM_RELEASE"
    stop = replace(ADVICE, action=Action.TERMINATE, generation=2)
    seen_before = replace(settled(Reason.MOVED_ON), generation=2)
    (found,) = plan(world(HELD), [stop], numbered([*REQUEUED, seen_before]), PLAIN, NOW)
    assert isinstance(found, Verdict) and found.reason is Reason.MOVED_ON, "a successor is never cancelled"
    assert found.detail == "left held by Recovery: scontrol release 7"


def test_refusals_are_final_and_tries_are_counted() -> None:
    def ledger(reply: ReplyKind, times: int = 1) -> list[LedgerEntry]:
        return [*EVIDENCE, *did(*[StepKind.REQUEUE_HOLD] * times, reply=reply)]

    assert one(world(FAILED), ledger=ledger(ReplyKind.DISABLED)) == "NOT_REQUEUEABLE"
    assert one(world(FAILED), ledger=ledger(ReplyKind.DENIED)) == "NOT_PERMITTED"
    assert one(world(FAILED), ledger=ledger(ReplyKind.ALREADY)) == "SLURM_REQUEUE_HOLD"
    tired = [*ledger(ReplyKind.UNKNOWN, 8), settled(Reason.TRIES_EXHAUSTED)]
    assert one(world(FAILED), ledger=tired) == "TRIES_EXHAUSTED"
    hasty = [*EVIDENCE, *did(StepKind.REQUEUE_HOLD, reply=ReplyKind.UNKNOWN, at_s=NOW - 0.5)]
    assert one(world(FAILED), ledger=hasty) == "BACKING_OFF"


def test_a_mark_that_is_not_permitted_or_not_free_is_left_out() -> None:
    ready = replace(HELD, excluded=("gpu-001",))
    denied = [*REQUEUED, *did(StepKind.MARK, reply=ReplyKind.DENIED)]
    assert one(world(ready), ledger=denied) == "SLURM_RELEASE"
    assert one(world(replace(ready, admin_comment="ticket 12")), ledger=REQUEUED) == "SLURM_RELEASE"
    assert one(world(ready), ledger=REQUEUED, limits=Limits(mark=False)) == "SLURM_RELEASE"


def test_exclusions_taken_off_after_our_release_were_taken_off_by_somebody() -> None:
    ledger = [*REQUEUED, *did(StepKind.RELEASE), settled(Reason.OVERRIDDEN)]
    assert one(world(replace(READY, excluded=())), ledger=ledger) == "OVERRIDDEN"
    assert one(world(replace(READY, excluded=())), ledger=REQUEUED) == "SLURM_UPDATE_CONSTRAINTS"


def test_a_job_that_cannot_start_any_more_is_told_with_the_command_that_mends_it() -> None:
    ledger = [*REQUEUED, *did(StepKind.RELEASE), settled(Reason.INFEASIBLE_CONSTRAINTS)]
    (found,) = plan(world(replace(READY, reason="BadConstraints")), [ADVICE], numbered(ledger), Limits(), NOW)
    assert isinstance(found, Verdict) and found.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert found.detail == "scontrol update JobId=7 ExcNodeList="


def test_what_is_left_held_is_said() -> None:
    ledger = [*REQUEUED, settled(Reason.LIMIT_EXCEEDED)]
    (found,) = plan(world(HELD), [ADVICE], numbered(ledger), Limits(max_exclude_nodes=0, max_exclude_share=0), NOW)
    assert isinstance(found, Step), "one node is always allowed"
    two = replace(ADVICE, exclude=(*ADVICE.exclude, Exclusion(node="gpu-002", because="x")))
    (found,) = plan(world(HELD), [two], numbered(ledger), Limits(max_exclude_nodes=1), NOW)
    assert isinstance(found, Verdict) and found.reason is Reason.LIMIT_EXCEEDED
    assert "left held by Recovery: scontrol release 7" in found.detail


def test_a_node_that_slurm_does_not_have_is_never_named() -> None:
    advice = replace(ADVICE, exclude=(Exclusion(node="login-1", because="a log said so"),))
    assert one(world(FAILED), advice) == "UNKNOWN_NODE"


def test_hold_and_terminate() -> None:
    hold, stop = replace(ADVICE, action=Action.HOLD), replace(ADVICE, action=Action.TERMINATE)
    live = replace(FAILED, state="RUNNING")
    ended = [settled(Reason.ALREADY_SATISFIED)]
    assert one(world(FAILED), hold, ended) == "ALREADY_SATISFIED"
    assert one(world(live), hold) == "JOB_RUNNING"
    assert one(world(HELD), hold, ended) == "MOVED_ON"
    assert one(world(live), stop) == "SAVE_EVIDENCE"
    assert one(world(live), stop, EVIDENCE) == "SLURM_CANCEL"
    assert one(world(replace(live, hold=Hold.PERSON, priority=0)), stop, EVIDENCE) == "HELD_BY_PERSON"
    assert one(world(replace(live, restart=1, submit_time_s=1_796_000_090)), stop, EVIDENCE) == "MOVED_ON"
    assert one(world(), stop, ended) == "ALREADY_SATISFIED"
    assert one(world(), RESTART) == "JOB_GONE"


def test_a_requested_pause_is_kept() -> None:
    assert one(world(FAILED), replace(ADVICE, delay_s=120)) == "DELAYED"
    assert one(world(FAILED), replace(ADVICE, delay_s=40)) == "SAVE_EVIDENCE"


def test_stops_are_counted_over_all_jobs() -> None:
    other = [replace(e, attempt="lab/9@5.0") for e in did(StepKind.REQUEUE_HOLD, StepKind.CANCEL)]
    ledger = [*EVIDENCE, *other]
    assert one(world(FAILED), ledger=ledger, limits=Limits(max_stops_per_hour=2)) == "RATE_LIMITED"
    assert one(world(FAILED), ledger=ledger, limits=Limits(max_stops_per_hour=3)) == "SLURM_REQUEUE_HOLD"


def test_one_step_per_job() -> None:
    twin = replace(ADVICE, id="adv-9", attempt=replace(KEY, cluster=None))
    first, second = plan(world(FAILED), [ADVICE, twin], (), Limits(), NOW)
    assert isinstance(first, Step) and isinstance(second, Verdict) and second.reason is Reason.ONE_STEP_PER_JOB


def drain(seen: World, status: Status = Status.ESTABLISHED, **limits: object) -> str:
    advice = replace(ADVICE, action=Action.HOLD, drain=ADVICE.exclude, status=status)
    return one(seen, advice, limits=Limits(allow_drain=True, **limits))  # type: ignore[arg-type]


def test_drains() -> None:
    seen = world(FAILED)
    assert drain(seen) == "SLURM_DRAIN"
    assert drain(seen, Status.HYPOTHESIS) == "SETTLING", "never on a hypothesis"
    assert one(seen, replace(ADVICE, action=Action.HOLD, drain=ADVICE.exclude)) == "SETTLING", "not without leave"
    for node in (
        Node(name="gpu-001", state="IDLE", flags=frozenset({"DRAIN"}), reason="parts", partitions=("main",)),
        Node(name="gpu-001", state="DOWN", reason="Not responding", partitions=("main",)),
    ):
        assert drain(replace(seen, nodes={**seen.nodes, "gpu-001": node})) == "SETTLING", "somebody else's"
    ours = Node(name="gpu-005", state="IDLE", flags=frozenset({"DRAIN"}), reason="recovery:x", partitions=("main",))
    assert drain(replace(seen, nodes={**seen.nodes, "gpu-005": ours})) == "SETTLING", "the share is used up"
    assert drain(replace(seen, nodes={**seen.nodes, "gpu-005": ours}), max_drained_share=0.5) == "SLURM_DRAIN"
    assert drain(seen, max_drains_per_hour=0) == "SETTLING"


def test_parts_of_a_heterogeneous_job_are_its_leaders() -> None:
    leader = replace(FAILED, het_leader=7, het_offset=0)
    part = replace(FAILED, id="8", raw_id=8, het_leader=7, het_offset=1, nodes=("gpu-003",), node_count=1)
    for name in ("7", "7+0", "7+1", "8"):
        advice = replace(ADVICE, attempt=replace(KEY, job_id=name))
        (step,) = plan(world(leader, part), [advice], (), Limits(), NOW)
        assert isinstance(step, Step) and step.job is not None and step.job.id == "7"


STATES = st.sampled_from(["PENDING", "RUNNING", "FAILED", "COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "WHAT"])
JOBS = st.builds(
    lambda state, restart, hold, completing, requeue, submit, excluded: replace(
        FAILED, state=state, restart=restart, hold=hold, completing=completing, requeue=requeue,
        submit_time_s=submit, excluded=excluded, priority=0 if hold is not Hold.NONE else 1,
    ),
    STATES, st.integers(0, 3), st.sampled_from(list(Hold)), st.booleans(), st.sampled_from([True, False, None]),
    st.sampled_from([1_796_000_000, 1_796_000_050, 1_795_000_000]), st.sampled_from([(), ("gpu-001",), ("gpu-008",)]),
)  # fmt: skip
LEDGERS = st.lists(
    st.tuples(st.sampled_from(list(StepKind)), st.sampled_from([*ReplyKind, None])), max_size=6
).map(lambda rows: [e for kind, reply in rows for e in did(kind, reply=reply)])  # fmt: skip


@given(JOBS, LEDGERS, st.sampled_from(list(Action)))
def test_whatever_is_seen_no_step_is_a_wrong_one(job: Job, ledger: list[LedgerEntry], action: Action) -> None:
    entries = numbered(ledger)
    advice = replace(ADVICE, action=action)
    found = plan(world(job), [advice], entries, Limits(), NOW)
    assert found == plan(world(job), [advice], entries, Limits(), NOW), "pure"
    (item,) = found
    if isinstance(item, Verdict):
        return
    same = (job.restart, job.submit_time_s) == (0, KEY.submit_time_s)
    successor = job.restart == 1 and job.state == "PENDING" and not job.completing
    assert not job.completing and job.hold is not Hold.PERSON
    match item.kind:
        case StepKind.SAVE_EVIDENCE:
            assert same
        case StepKind.REQUEUE_HOLD:
            assert same and job.state in ("RUNNING", "FAILED", "TIMEOUT", "NODE_FAIL") and job.requeue is not False
        case StepKind.CANCEL:
            assert same and job.state == "RUNNING"
        case StepKind.RELEASE:
            assert successor and job.hold in (Hold.REQUEUE, Hold.SYSTEM)
        case StepKind.UPDATE_CONSTRAINTS:
            assert successor and set(job.excluded) < set(item.exclude)
        case _:
            assert successor
