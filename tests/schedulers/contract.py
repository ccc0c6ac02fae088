"""What the adapter relies on, as one suite for the fake in memory and for real daemons.

A subclass gives a `bench`: jobs that end as told, people who act, time that passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attribution.model import AttemptKey
from attribution.schedulers.base import Actor, Hold, Job, Observer, ReplyKind, Step, StepKind


class Bench(Protocol):
    observer: Observer
    actor: Actor

    def submit(self, *, seconds: float, end: str, **options: object) -> str:
        """A job that ends so (COMPLETED, FAILED) after that time; its id."""

    def array(self, tasks: int) -> str:
        """An array whose tasks fail at once; the array's id."""

    def until(self, job_id: str, check: Callable[[Job], bool]) -> Job:
        """Let time pass until the job is so."""

    def person(self, verb: str, job_id: str, *, root: bool = False) -> None:
        """hold, uhold, release, cancel or requeue, by the owner or by root."""

    def drain(self, node: str, reason: str) -> None:
        """By an administrator."""

    def now(self) -> float:
        """Seconds since the epoch, on the bench's clock."""


def step(kind: StepKind, job: Job, **more: object) -> Step:
    key = AttemptKey(job_id=job.id, submit_time_s=job.submit_time_s, restart=job.restart)
    return Step(kind=kind, advice_id="adv-1", attempt=key, job=job, **more)  # type: ignore[arg-type]


def ended(job: Job) -> bool:
    return job.state in ("FAILED", "COMPLETED", "CANCELLED") and not job.completing


def running(job: Job) -> bool:
    return job.state == "RUNNING"


def held(job: Job) -> bool:
    return job.state == "PENDING" and not job.completing and job.hold is not Hold.NONE


class Contract:
    def failed(self, bench: Bench, **options: object) -> Job:
        return bench.until(bench.submit(seconds=0, end="FAILED", **options), ended)

    def requeued(self, bench: Bench) -> Job:
        job = self.failed(bench)
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.ACCEPTED
        return bench.until(job.id, held)

    def test_requeuehold_makes_a_held_successor(self, bench: Bench) -> None:
        before = self.failed(bench)
        assert before.exit_code
        bench.actor.act(step(StepKind.REQUEUE_HOLD, before))
        after = bench.until(before.id, held)
        assert after.hold is Hold.REQUEUE
        assert after.restart == before.restart + 1
        assert after.submit_time_s >= before.submit_time_s
        assert after.priority == 0 and after.user == before.user

    def test_a_second_requeue_says_already(self, bench: Bench) -> None:
        job = self.requeued(bench)
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.ALREADY

    def test_the_second_look_agrees_with_the_first(self, bench: Bench) -> None:
        job = self.failed(bench)
        assert bench.observer.stamp(job) == job.stamp
        waiting = self.requeued(bench)
        assert bench.observer.stamp(waiting) == waiting.stamp
        assert bench.observer.stamp(job) != waiting.stamp or job.id != waiting.id

    def test_constraints_replace_what_was_there(self, bench: Bench) -> None:
        job = self.requeued(bench)
        for nodes in (("gpu-001", "gpu-002"), ("gpu-003",)):
            reply = bench.actor.act(step(StepKind.UPDATE_CONSTRAINTS, job, exclude=nodes))
            assert reply.kind is ReplyKind.ACCEPTED
            found = bench.until(job.id, held)
            assert found.excluded == nodes
            assert bench.observer.stamp(found) == found.stamp

    def test_an_unknown_node_is_refused(self, bench: Bench) -> None:
        job = self.requeued(bench)
        reply = bench.actor.act(step(StepKind.UPDATE_CONSTRAINTS, job, exclude=("gpu-099",)))
        assert reply.kind is ReplyKind.INVALID

    def test_a_running_job_takes_no_constraints(self, bench: Bench) -> None:
        job = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        reply = bench.actor.act(step(StepKind.UPDATE_CONSTRAINTS, job, exclude=("gpu-001",)))
        assert reply.kind is ReplyKind.TOO_LATE
        bench.person("cancel", job.id)

    def test_released_it_waits_for_slurms_delay_and_start_now_ends_that(self, bench: Bench) -> None:
        job = self.requeued(bench)
        assert bench.actor.act(step(StepKind.RELEASE, job)).kind is ReplyKind.ACCEPTED
        free = bench.until(job.id, lambda j: j.state == "PENDING" and j.hold is Hold.NONE)
        assert free.priority > 0
        assert bench.actor.act(step(StepKind.START_NOW, free)).kind in (ReplyKind.ACCEPTED, ReplyKind.TOO_LATE)
        bench.until(job.id, lambda j: j.state != "PENDING")

    def test_what_slurm_does_not_know(self, bench: Bench) -> None:
        job = self.failed(bench)
        from dataclasses import replace

        gone = replace(job, id="999999", raw_id=999999)
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, gone)).kind is ReplyKind.GONE
        assert bench.actor.act(step(StepKind.CANCEL, gone)).kind is ReplyKind.ACCEPTED, "scancel says nothing"
        assert bench.observer.stamp(gone) is None
        assert bench.observer.node("gpu-099") is None

    def test_slurm_requeues_completed_and_cancelled_jobs_without_a_word(self, bench: Bench) -> None:
        """The reason why the planner has to know the state."""
        done = bench.until(bench.submit(seconds=0, end="COMPLETED"), ended)
        assert done.state == "COMPLETED"
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, done)).kind is ReplyKind.ACCEPTED
        job = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        bench.person("cancel", job.id)
        gone = bench.until(job.id, ended)
        assert gone.state == "CANCELLED"
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, gone)).kind is ReplyKind.ACCEPTED

    def test_the_guard_for_running_jobs_ignores_ended_ones(self, bench: Bench) -> None:
        job = self.failed(bench)
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, job, stop_running=True)).kind is ReplyKind.ACCEPTED
        assert bench.until(job.id, ended).restart == 0
        live = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        bench.actor.act(step(StepKind.REQUEUE_HOLD, live, stop_running=True))
        assert bench.until(live.id, held).restart == 1

    def test_a_late_requeue_kills_the_next_attempt(self, bench: Bench) -> None:
        """The reason why the planner has to know the attempt."""
        first = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        bench.actor.act(step(StepKind.REQUEUE_HOLD, first))
        waiting = bench.until(first.id, held)
        bench.actor.act(step(StepKind.RELEASE, first))
        # within the second of the requeue the start would fail: "Job credential revoked"
        bench.until(first.id, lambda j: bench.now() >= waiting.submit_time_s + 2)
        bench.actor.act(step(StepKind.START_NOW, first))
        bench.until(first.id, running)
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, first)).kind is ReplyKind.ACCEPTED
        assert bench.until(first.id, held).restart == 2

    def test_no_requeue_is_final(self, bench: Bench) -> None:
        job = self.failed(bench, requeue=False)
        assert job.requeue is False
        assert bench.actor.act(step(StepKind.REQUEUE_HOLD, job)).kind is ReplyKind.DISABLED

    def test_a_hold_of_a_running_job_is_taken_and_seen(self, bench: Bench) -> None:
        job = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        bench.person("hold", job.id)
        now = bench.until(job.id, lambda j: j.hold is Hold.PERSON)
        assert now.state == "RUNNING" and now.priority == 0
        bench.person("cancel", job.id)

    def test_holds_of_people_are_told_from_ours(self, bench: Bench) -> None:
        job = self.requeued(bench)
        bench.person("hold", job.id)
        assert bench.until(job.id, held).hold is Hold.REQUEUE, "an owner's hold on top of ours cannot be seen"
        bench.person("hold", job.id, root=True)
        assert bench.until(job.id, held).hold is Hold.PERSON
        bench.person("release", job.id, root=True)
        bench.until(job.id, lambda j: j.hold is Hold.NONE)
        bench.person("hold", job.id)
        found = bench.observer.observe().jobs[job.id]
        assert found.hold is Hold.PERSON

    def test_too_many_exclusions_are_accepted_and_the_job_never_starts(self, bench: Bench) -> None:
        job = self.requeued(bench)
        everything = tuple(sorted(bench.observer.observe().nodes))
        reply = bench.actor.act(step(StepKind.UPDATE_CONSTRAINTS, job, exclude=everything))
        assert reply.kind is ReplyKind.ACCEPTED
        bench.actor.act(step(StepKind.RELEASE, job))
        bench.actor.act(step(StepKind.START_NOW, job))
        bench.until(job.id, lambda j: j.reason == "BadConstraints")
        bench.person("cancel", job.id)

    def test_a_mark_is_kept(self, bench: Bench) -> None:
        job = self.requeued(bench)
        assert bench.actor.act(step(StepKind.MARK, job, text="recovery:adv-1")).kind is ReplyKind.ACCEPTED
        assert bench.until(job.id, held).admin_comment == "recovery:adv-1"

    def test_cancel_ends_a_running_and_a_waiting_job(self, bench: Bench) -> None:
        live = bench.until(bench.submit(seconds=60, end="COMPLETED"), running)
        waiting = self.requeued(bench)
        for job in (live, waiting):
            assert bench.actor.act(step(StepKind.CANCEL, job)).kind is ReplyKind.ACCEPTED
            assert bench.until(job.id, ended).state == "CANCELLED"

    def test_drain_and_undrain(self, bench: Bench) -> None:
        node = bench.observer.observe().nodes["gpu-002"]
        key = AttemptKey(job_id="1")
        drain = Step(kind=StepKind.DRAIN, advice_id="adv-1", attempt=key, node=node, text="recovery:adv-1 Xid 79")
        assert bench.actor.act(drain).kind is ReplyKind.ACCEPTED
        for found in (bench.observer.observe().nodes["gpu-002"], bench.observer.node("gpu-002")):
            assert found is not None and found.drained and found.ours
            assert found.reason == "recovery:adv-1 Xid 79"
        bench.drain("gpu-003", "waiting for parts")
        other = bench.observer.node("gpu-003")
        assert other is not None and other.drained and not other.ours
        for name in ("gpu-002", "gpu-003"):
            undo = Step(kind=StepKind.UNDRAIN, advice_id="", attempt=key, node=bench.observer.observe().nodes[name])
            assert bench.actor.act(undo).kind is ReplyKind.ACCEPTED
            back = bench.observer.node(name)
            assert back is not None and not back.drained

    def test_the_last_task_of_an_array_has_the_arrays_id(self, bench: Bench) -> None:
        array = bench.array(3)
        last = bench.until(f"{array}_2", ended)
        assert last.raw_id == int(array) and last.array_id == int(array) and last.array_task == 2
        assert bench.observer.stamp(last) == last.stamp
        first = bench.until(f"{array}_0", ended)
        bench.actor.act(step(StepKind.REQUEUE_HOLD, first))
        assert bench.until(first.id, held).restart == 1
        assert bench.observer.observe().jobs[last.id].restart == 0
