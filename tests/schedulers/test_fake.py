"""The contract on the fake: without text between, and through both shapes of Slurm's JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from contract import Contract

from attribution.model import SchedulerError
from attribution.schedulers.base import Actor, Job, Observer, ReplyKind, StepKind
from attribution.schedulers.fake import FakeScheduler, FakeSlurm
from attribution.schedulers.fake_client import FakeClient
from attribution.schedulers.slurm import SlurmActor, SlurmObserver


@dataclass
class FakeBench:
    slurm: FakeSlurm
    observer: Observer
    actor: Actor
    jobs: list[str] = field(default_factory=list)

    def submit(self, *, seconds: float, end: str, **options: object) -> str:
        return self.slurm.submit(fates=((seconds, end),), **options).id

    def array(self, tasks: int) -> str:
        return str(self.slurm.submit_array(tasks, fates=((0.0, "FAILED"),))[0].array_id)

    def until(self, job_id: str, check: Callable[[Job], bool]) -> Job:
        for _ in range(600):
            job = self.observer.observe().jobs[job_id]
            if check(job):
                return job
            self.slurm.advance(0.1)
        raise AssertionError(f"never: {job}")

    def person(self, verb: str, job_id: str, *, root: bool = False) -> None:
        user = "root" if root else "alice"
        words = {
            "hold": lambda: self.slurm.do_hold(user, job_id),
            "release": lambda: self.slurm.do_release(user, job_id),
            "cancel": lambda: self.slurm.do_cancel(user, job_id),
            "requeue": lambda: self.slurm.do_requeue(user, job_id),
        }[verb]()
        assert words == ""

    def now(self) -> float:
        return self.slurm.now_s

    def drain(self, node: str, reason: str) -> None:
        assert self.slurm.do_node("root", node, "DRAIN", reason) == ""


@pytest.fixture(params=["direct", "22.05", "24.11"])
def bench(request: pytest.FixtureRequest) -> FakeBench:
    slurm = FakeSlurm()
    if request.param == "direct":
        scheduler = FakeScheduler(slurm=slurm)
        return FakeBench(slurm, scheduler, scheduler)
    client = FakeClient(slurm=slurm, modern=request.param == "24.11")
    return FakeBench(slurm, SlurmObserver(runner=client, now=lambda: slurm.now_s), SlurmActor(runner=client))


class TestFake(Contract):
    pass


def test_a_crash_of_the_controller_forgets_what_was_not_saved() -> None:
    slurm = FakeSlurm(save_every_s=5.0)
    job = slurm.submit(fates=((1.0, "FAILED"),))
    slurm.advance(0.1)
    slurm.advance(2)
    slurm.advance(6)
    assert slurm.jobs[job.raw_id].state == "FAILED"
    slurm.do_requeue("alice", job.id, hold=True)
    lost = slurm.submit()
    slurm.crash()
    assert slurm.jobs[job.raw_id].state == "FAILED" and slurm.jobs[job.raw_id].restart == 0
    assert slurm.submit().raw_id == lost.raw_id, "the id is given a second time"


def test_a_start_in_the_second_of_the_requeue_is_refused_by_the_node() -> None:
    slurm = FakeSlurm()
    job = slurm.submit(fates=((1.0, "FAILED"),))
    for _ in range(30):
        slurm.advance(0.1)
    slurm.now_s = float(int(slurm.now_s) + 1)
    slurm.do_requeue("root", job.id, hold=True)
    slurm.do_release("root", job.id)
    slurm.do_update_job("root", job.id, "StartTime", "now")
    slurm.advance(0.2)
    assert slurm.jobs[job.raw_id].state == "FAILED" and slurm.jobs[job.raw_id].restart == 1


def test_a_controller_that_is_down_is_unknown_and_not_empty() -> None:
    slurm = FakeSlurm()
    job_id = slurm.submit(fates=((0.0, "FAILED"),)).id
    for _ in range(30):
        slurm.advance(0.1)
    client = FakeClient(slurm=slurm)
    observer, actor = SlurmObserver(runner=client), SlurmActor(runner=client)
    job = observer.observe().jobs[job_id]
    slurm.down = True
    assert not observer.observe().whole
    with pytest.raises(SchedulerError):
        observer.stamp(job)
    from contract import step

    assert actor.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.UNKNOWN


def test_other_peoples_jobs_and_marks_need_rights() -> None:
    slurm = FakeSlurm(admins=frozenset({"root"}))
    job_id = slurm.submit(user="bob", fates=((0.0, "FAILED"),)).id
    for _ in range(30):
        slurm.advance(0.1)
    from contract import step

    stranger, owner = (FakeScheduler(slurm=slurm, user=user) for user in ("alice", "bob"))
    job = owner.observe().jobs[job_id]
    assert stranger.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.DENIED
    assert owner.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.ACCEPTED
    assert owner.act(step(StepKind.MARK, job, text="recovery:x")).kind is ReplyKind.DENIED
