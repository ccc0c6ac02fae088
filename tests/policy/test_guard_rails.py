"""Whatever the document, the history and the fleet: guard rails only weaken, and advice is a pure function."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from attribution.model import (
    Action,
    Attempt,
    AttemptKey,
    Culprit,
    Diagnosis,
    Domain,
    EvidenceItem,
    Outcome,
    Progress,
    Role,
    Source,
    Status,
)
from attribution.policy import Fleet, History, PastAttempt, Policy, advise
from attribution.policy.advise import BY_A_PERSON, NEVER_EXCLUDED, STRENGTH, decide, is_actionable
from attribution.policy.document import Limits, Row, When
from attribution.policy.explain import explain
from tests.make import analyzer

TAXONOMY = analyzer().ruleset.taxonomy
NODES = ("gpu-001", "gpu-002", "gpu-003")
STEPS = st.one_of(st.none(), st.integers(0, 50))
_LIMITS = st.builds(
    Limits,
    **{
        f.name: st.integers(0, 30)
        for f in fields(Limits)
        if f.name not in ("drain", "exclusion_status_at_least", "exclusions_percent", "exclusion_hours")
    },
    exclusions_percent=st.floats(0, 100),
    exclusion_hours=st.floats(0, 100),
    exclusion_status_at_least=st.sampled_from([Status.SUPPORTED, Status.ESTABLISHED]),
    drain=st.booleans(),
)
_WHEN = st.builds(
    When,
    classes=st.sampled_from([(), ("gpu_hw.*",), ("scheduler.cancelled",), ("*",)]),
    status_at_least=st.sampled_from([None, *Status]),
    same_root_without_progress_at_least=st.sampled_from([None, 1, 3]),
    progressed=st.sampled_from([None, True, False]),
)
_ACTIONS = st.sampled_from([None, *Action])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    whens = draw(st.lists(_WHEN, max_size=4))
    rows = [Row(id=f"r{i}", when=w, action=draw(_ACTIONS)) for i, w in enumerate([*whens, When()])]
    return Policy(name="any", rows=tuple(rows), limits=draw(_LIMITS), digest="d" * 64)


@st.composite
def diagnoses(draw: st.DrawFn) -> Diagnosis:
    source = draw(st.sampled_from(list(Source)))
    last = draw(STEPS)
    return Diagnosis(
        attempt=AttemptKey(job_id="4242"),
        outcome=draw(st.sampled_from(list(Outcome))),
        failure_class=draw(st.sampled_from([None, *TAXONOMY])),
        domain=draw(st.sampled_from(list(Domain))),
        status=draw(st.sampled_from(list(Status))),
        confidence=draw(st.floats(0, 1)),
        culprit=Culprit(nodes=tuple(draw(st.lists(st.sampled_from([*NODES, "login-1"]), max_size=3, unique=True)))),
        root=EvidenceItem(signature="s", role=Role.ROOT, path="a.log", line=1, offset=0, text="t", source=source),
        fingerprint=draw(st.sampled_from([None, "f1", "f2"])),
        entity=draw(st.sampled_from([None, "/ckpt/7"])),
        progress=Progress(dialect=None if last is None else "any", first_step=0, last_step=last),
    )


PASTS = st.lists(
    st.builds(
        PastAttempt,
        restart=st.integers(0, 30),
        outcome=st.sampled_from(list(Outcome)),
        fingerprint=st.sampled_from([None, "f1", "f2"]),
        entity=st.sampled_from([None, "/ckpt/7"]),
        last_step=STEPS,
        started_s=st.just(0.0),
        ended_s=st.floats(1, 5000),
    ),
    max_size=12,
).map(lambda found: History(attempts=tuple(found)))
FLEETS = st.builds(
    Fleet,
    partition_nodes=st.sampled_from([{}, {"main": 3}, {"main": 1000}]),
    excluded=st.sampled_from([{}, {"main": 7}]),
    exclusions_last_hour=st.integers(0, 40),
    lemons=st.sampled_from([frozenset(), frozenset({"gpu-001"})]),
)
ATTEMPT = Attempt(key=AttemptKey(job_id="4242"), nodes=NODES, partition="main")


@given(diagnoses(), policies(), PASTS, FLEETS)
def test_guard_rails_only_weaken_and_laws_hold(d: Diagnosis, policy: Policy, history: History, fleet: Fleet) -> None:
    got = advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, history=history, fleet=fleet, now_s=5.0)
    row, wanted = decide(d, policy, TAXONOMY, history)
    assert got.reason_code == row.id
    assert STRENGTH[got.action] <= STRENGTH[wanted]
    assert got.action is wanted or got.limits, "whoever weakens says why"
    assert got == advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, history=history, fleet=fleet, now_s=5.0)
    limits = policy.limits
    if d.failure_class in BY_A_PERSON or d.outcome in (Outcome.CANCELLED, Outcome.COMPLETED, Outcome.RUNNING):
        assert got.action is Action.NONE
    if got.exclude:
        assert got.action is Action.RESTART_EXCLUDING
        assert set(got.exclude_nodes) <= set(NODES) and len(got.exclude) < len(NODES)
        assert len(got.exclude) <= min(limits.exclusions_per_job, limits.exclusions_per_partition)
        assert len(got.exclude) + fleet.exclusions_last_hour <= limits.exclusions_per_hour
        assert d.status in (Status.SUPPORTED, Status.ESTABLISHED)
        assert not (d.failure_class or "").startswith(NEVER_EXCLUDED) and d.domain is not Domain.WORKLOAD
    if got.drain:
        assert d.status is Status.ESTABLISHED and limits.drain
        assert d.root is not None and d.root.source is not Source.JOB_LOG
    if len(history.attempts) >= limits.max_restarts:
        assert got.action in (Action.HOLD, Action.NONE)


@given(diagnoses(), policies(), PASTS, FLEETS)
def test_a_stricter_limit_never_gives_a_stronger_action(
    d: Diagnosis, policy: Policy, history: History, fleet: Fleet
) -> None:
    loose = advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, history=history, fleet=fleet)
    for name in (
        "max_restarts",
        "max_failures_without_progress",
        "max_same_root_without_progress",
        "exclusions_per_job",
    ):
        limits = replace(policy.limits, **{name: getattr(policy.limits, name) // 2})
        strict = advise(
            d, ATTEMPT, policy=replace(policy, limits=limits), taxonomy=TAXONOMY, history=history, fleet=fleet
        )
        assert STRENGTH[strict.action] <= STRENGTH[loose.action]


@given(diagnoses(), policies(), PASTS, FLEETS)
def test_an_explanation_never_contradicts_the_advice(
    d: Diagnosis, policy: Policy, history: History, fleet: Fleet
) -> None:
    got = explain(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, history=history, fleet=fleet)
    assert got.advice == advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, history=history, fleet=fleet)
    assert all(r.failed for r in got.not_before)
    assert [r.row for r in got.not_before] + [got.row, *got.never_asked] == [r.id for r in policy.rows]


@given(st.integers(1, 5), st.integers(1, 5), st.floats(0, 9999))
def test_superseded_advice_cannot_act(old: int, new: int, now: float) -> None:
    d = Diagnosis(
        attempt=ATTEMPT.key, outcome=Outcome.FAILED, failure_class="comm.peer_lost", domain=Domain.UNKNOWN,
        status=Status.SUPPORTED, confidence=0.9,
    )  # fmt: skip
    policy = Policy(name="any", rows=(Row(id="r", when=When(), action=Action.RESTART),), limits=Limits())
    mine, newest = (advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, generation=g, now_s=0.0) for g in (old, new))
    if is_actionable(mine, newest, now):
        assert old >= new and now <= policy.limits.advice_valid_s


def test_a_repeat_offender_is_named_and_not_excluded() -> None:
    d = Diagnosis(
        attempt=ATTEMPT.key, outcome=Outcome.FAILED, failure_class="comm.peer_lost", domain=Domain.UNKNOWN,
        status=Status.SUPPORTED, confidence=0.9,
    )  # fmt: skip
    policy = Policy(name="any", rows=(Row(id="r", when=When(), action=None),), limits=Limits())
    got = advise(d, ATTEMPT, policy=policy, taxonomy=TAXONOMY, fleet=Fleet(lemons=frozenset({"gpu-002"})))
    assert got.action is Action.RESTART and got.exclude == ()
    assert "repeat offender over all jobs, worth a look: gpu-002" in got.because
