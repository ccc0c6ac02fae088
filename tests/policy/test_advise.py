"""Advice: what the default policy says, and what no policy can make it say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from attribution.policy import Fleet, History, PastAttempt, advise, is_actionable, load_policy
from attribution.policy.advise import STRENGTH
from attribution.policy.cases import run_tests
from attribution.policy.document import parse_policy
from attribution.policy.optin import parse_comment
from tests.make import analyzer

POLICY = load_policy()
TAXONOMY = analyzer().ruleset.taxonomy
KEY = AttemptKey(job_id="4242")


def diagnosis(failure_class: str, **more: object) -> Diagnosis:
    known = TAXONOMY[failure_class]
    values: dict[str, object] = {
        "outcome": Outcome.FAILED, "domain": known.domain, "status": Status.ESTABLISHED, "confidence": 0.9, "fingerprint": "f1", **more,
    }  # fmt: skip
    return Diagnosis(attempt=KEY, failure_class=failure_class, **values)  # type: ignore[arg-type]


def advice(
    d: Diagnosis,
    nodes: tuple[str, ...] = ("gpu-001", "gpu-002"),
    history: History | None = None,
    fleet: Fleet | None = None,
    **more: object,
) -> Advice:
    values: dict[str, object] = {"key": KEY, "partition": "main", **more}
    return advise(
        d,
        Attempt(nodes=nodes, **values),  # type: ignore[arg-type]
        policy=POLICY,
        taxonomy=TAXONOMY,
        history=history or History(),
        fleet=fleet or Fleet(),
        now_s=1000.0,
    )


def past(n: int, **more: object) -> History:
    values: dict[str, object] = {
        "outcome": Outcome.FAILED,
        "failure_class": "comm.peer_lost",
        "fingerprint": "f1",
        "last_step": 100,
        "first_step": 1,
        **more,
    }
    return History(attempts=tuple(PastAttempt(restart=i, **values) for i in range(n)))  # type: ignore[arg-type]


def test_the_policys_own_tests_hold() -> None:
    results = run_tests(POLICY, TAXONOMY)
    assert results
    assert [(r.case.name, r.problems) for r in results if r.problems] == []


def test_every_class_has_an_answer_and_healthy_ones_need_none() -> None:
    for name in TAXONOMY:
        outcome = (
            Outcome.COMPLETED
            if name == "healthy.completed"
            else Outcome.RUNNING
            if name == "healthy.running"
            else Outcome.FAILED
        )
        got = advice(diagnosis(name, outcome=outcome))
        assert got.action in Action
        if name.startswith("healthy."):
            assert got.action is Action.NONE


def test_a_node_outside_the_allocation_is_never_named() -> None:
    got = advice(diagnosis("gpu_hw.off_bus", culprit=Culprit(nodes=("login-1",))))
    assert got.exclude_nodes == ()
    assert "find it" in got.limits[0]


def test_a_restart_that_names_no_node_asks_for_nothing() -> None:
    """An empty ExcNodeList would clear the user's own exclusions."""
    got = advice(diagnosis("gpu_hw.off_bus", culprit=Culprit(nodes=())))
    assert got.action is Action.RESTART_EXCLUDING
    assert got.commands == ()
    assert not is_actionable(got, None, got.issued_at_s or 0.0)


@pytest.mark.parametrize(
    ("allocation", "culprits", "excluded"),
    [
        (("10.0.0.1", "10.0.0.2"), ("10.9.9.9",), ()),  # addresses have no short name
        (("gpu-001", "gpu-002", "gpu-003"), ("gpu-001", "gpu-001.cluster.example"), ("gpu-001",)),
        (("gpu-001.site", "gpu-002.site"), ("gpu-001",), ("gpu-001.site",)),
        (("gpu-001", "gpu-002"), ("gpu-001.x,gpu-999",), ("gpu-001",)),
    ],
)
def test_exclusions_are_spelled_as_the_allocation_spells_them(
    allocation: tuple[str, ...], culprits: tuple[str, ...], excluded: tuple[str, ...]
) -> None:
    got = advice(diagnosis("gpu_hw.off_bus", culprit=Culprit(nodes=culprits)), nodes=allocation)
    assert got.exclude_nodes == excluded


def test_what_accounting_says_a_person_cancelled_is_not_restarted() -> None:
    hung = diagnosis("hang.no_progress", outcome=Outcome.HUNG)
    assert advice(hung, state="CANCELLED by 1000").action is Action.NONE


def test_restarts_that_were_never_seen_count_towards_the_most() -> None:
    got = advice(diagnosis("comm.peer_lost"), key=AttemptKey(job_id="7", restart=50))
    assert got.action is Action.HOLD


def test_a_partition_is_not_emptied() -> None:
    d = diagnosis("gpu_hw.off_bus", culprit=Culprit(nodes=("gpu-001",)))
    assert advice(d, fleet=Fleet(partition_nodes={"main": 100})).action is Action.RESTART_EXCLUDING
    assert advice(d, fleet=Fleet(partition_nodes={"main": 10})).action is Action.RESTART
    assert advice(d, fleet=Fleet(partition_nodes={"main": 100}, excluded={"main": 5})).action is Action.RESTART


def test_progress_protects_a_retry() -> None:
    d = diagnosis(
        "comm.peer_lost", status=Status.HYPOTHESIS, progress=Progress(dialect="megatron", first_step=100, last_step=900)
    )
    assert advice(d, history=past(5)).action is Action.RESTART
    stuck = replace(d, progress=Progress(dialect="megatron", first_step=1, last_step=100))
    assert advice(stuck, history=past(5)).action is Action.HOLD


def test_alternating_errors_cannot_loop_for_ever() -> None:
    turns = History(
        attempts=tuple(
            PastAttempt(restart=i, outcome=Outcome.FAILED, fingerprint=f"f{i % 2}", last_step=10) for i in range(4)
        )
    )
    d = diagnosis("comm.peer_lost", fingerprint="f9", progress=Progress(dialect="megatron", last_step=10))
    assert advice(d, history=turns).action is Action.HOLD


def test_a_crash_loop_backs_off() -> None:
    quick = past(3, fingerprint="other", started_s=0.0, ended_s=60.0, last_step=None)
    d = diagnosis("comm.peer_lost", progress=Progress(dialect="megatron", first_step=1, last_step=50))
    assert advice(d, history=quick).delay_s == 240


def test_drains_are_never_advised_on_a_jobs_own_log() -> None:
    policy = replace(POLICY, limits=replace(POLICY.limits, drain=True))
    d = diagnosis("gpu_hw.off_bus", culprit=Culprit(nodes=("gpu-001",)))
    got = advise(d, Attempt(key=KEY, nodes=("gpu-001", "gpu-002")), policy=policy, taxonomy=TAXONOMY)
    assert got.action is Action.RESTART_EXCLUDING and got.drain == ()


def test_superseded_and_expired_advice_cannot_act() -> None:
    old = advice(diagnosis("comm.peer_lost"))
    new = replace(old, generation=2)
    assert is_actionable(old, old, 1001.0)
    assert not is_actionable(old, new, 1001.0)
    assert not is_actionable(old, old, 1e9)


CLASSES = st.sampled_from(sorted(TAXONOMY))
PASTS = st.lists(
    st.builds(
        PastAttempt,
        restart=st.integers(0, 30),
        outcome=st.sampled_from(list(Outcome)),
        fingerprint=st.sampled_from(["f1", "f2", None]),
        last_step=st.one_of(st.none(), st.integers(0, 1000)),
        started_s=st.just(0.0),
        ended_s=st.floats(1.0, 1e5),
    ),
    max_size=25,
)


@given(
    CLASSES,
    st.sampled_from(list(Outcome)),
    st.sampled_from(list(Status)),
    PASTS,
    st.lists(st.sampled_from(["gpu-001", "gpu-002", "evil"]), max_size=3, unique=True),
)
def test_no_history_and_no_diagnosis_exceed_the_limits(
    name: str, outcome: Outcome, status: Status, history: list[PastAttempt], nodes: list[str]
) -> None:
    d = diagnosis(
        name,
        outcome=outcome,
        status=status,
        culprit=Culprit(nodes=tuple(nodes)),
        progress=Progress(dialect="m", last_step=5),
    )
    got = advice(d, history=History(attempts=tuple(history)))
    assert got == advice(d, history=History(attempts=tuple(history)))
    assert set(got.exclude_nodes) <= {"gpu-001", "gpu-002"}
    assert len(got.exclude_nodes) <= POLICY.limits.exclusions_per_job
    if len(history) >= POLICY.limits.max_restarts:
        assert STRENGTH[got.action] <= STRENGTH[Action.HOLD]
    if outcome is Outcome.CANCELLED or name in ("scheduler.cancelled", "scheduler.interrupted"):
        assert got.action is Action.NONE
    if got.exclude_nodes:
        assert status in (Status.SUPPORTED, Status.ESTABLISHED) and d.domain is not Domain.WORKLOAD


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rows: []", "expected a mapping"),
        ("rows: [{id: a, action: fly}]", "none of"),
        ("rows: [{id: a, action: hold, when: {mood: bad}}]", "unknown condition"),
        ("rows: [{id: a, action: hold, when: {class: x}}]", "without conditions"),
        ("{rows: [{id: a, action: hold}], limits: {exclusion_status_at_least: hypothesis}}", "whatever a site wants"),
        ("{rows: [{id: a, action: hold}], limits: {max_restarts: -1}}", "0 or more"),
    ],
)
def test_a_wrong_policy_says_what_and_where(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        parse_policy(text.encode(), "site.yaml")


@pytest.mark.parametrize(
    ("comment", "act", "problem"),
    [
        ("", False, False),
        ("nightly run of alice", False, False),
        ('{"recovery": {}}', True, False),
        ('{"recovery": {"act": false}}', False, False),
        ('{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 3}}', True, False),
        ('{"APS": {"auto_resume_mode": "always"}}', False, True),
        ('{"recovery": {"act": "yes"}}', False, True),
        ('{"recovery": ', False, True),
        ('{"other": 1}', False, False),
        ('{"recovery": {"policy": "../../etc/passwd"}}', False, True),
        ("{" * 20_000, False, True),
    ],
)
def test_comments_are_understood_or_reported_never_guessed(comment: str, act: bool, problem: bool) -> None:
    got = parse_comment(comment)
    assert (got.opted_in, got.problem is not None) == (act, problem)


@pytest.mark.parametrize(
    "text",
    [
        "{rows: [{id: a, action: hold, when: {confidence_at_least: abc}}, {id: b, action: hold}]}",
        "{rows: [{id: b, action: hold}], limits: [1]}",
        "{rows: [{id: b, action: hold}], tests: 5}",
        "{rows: [{id: b, action: hold}], limits: {exclusions_percent: .nan}}",
        "{rows: [{id: b, action: hold}], limits: {exclusions_per_hour: .inf}}",
        "{rows: [{id: b, action: hold}], limits: {max_restarts: 2.5}}",
        "{rows: [{id: b, action: hold}], limits: {drain: 1}}",
    ],
)
def test_a_limit_that_limits_nothing_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_policy(text.encode(), "site.yaml")


def test_another_decision_is_another_advice() -> None:
    first, later = advice(diagnosis("comm.peer_lost")), advice(diagnosis("comm.peer_lost"), history=past(4))
    assert first.action is not later.action
    assert first.id != later.id
