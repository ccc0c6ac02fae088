"""Live mode on simulated time: the same verdict as batch, each thing said once, and no false alarm."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from attribution.live.follow import Follower
from attribution.live.rhythm import Rhythm, Verdict
from attribution.live.watch import Kind, Limits, Watcher
from attribution.model import Outcome
from attribution.report.json import diagnosis_document
from attribution.sources.discover import discover
from tests.make import analyzer, results


class World:
    """A log that grows, a clock, and a watcher over both."""

    def __init__(self, log: Path, *, history: bool = False) -> None:
        self.now = 1000.0
        self.log = log
        self.watcher = Watcher(
            analyzer(), Follower(lambda: self.now), limits=Limits(settle_s=2.0, quiet_s=10.0), history=history
        )
        self.events = []
        log.touch()
        for job in discover([str(log)], each=True).groups:
            self.watcher.add(job)

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as f:
            f.write(data)

    def wait(self, seconds: float, step: float = 0.5) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.events += list(self.watcher.tick(self.now))

    def kinds(self) -> list[Kind]:
        return [e.kind for e in self.events]


@pytest.mark.parametrize(
    "name", ["deepspeed-rank-killed.log", "megatron-nan-loss.log", "slurm-oom-killed.log", "healthy/nanogpt.log"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_followed_file_ends_with_the_batch_diagnosis(tmp_path: Path, samples: Path, name: str, seed: int) -> None:
    data = (samples / name).read_bytes()
    log = tmp_path / "job.log"
    world, r, at = World(log), random.Random(seed), 0
    while at < len(data):
        step = r.randrange(1, 6000)
        world.write(data[at : at + step])
        at += step
        world.wait(0.5)
    world.wait(30)
    (live,) = world.watcher.final().values()
    (batch,) = results(log)
    dumped = [
        json.dumps(diagnosis_document(x[-1].evidence.attempt, x[-1].diagnosis, x[-1].advice)) for x in (live, (batch,))
    ]
    assert dumped[0] == dumped[1] or not data.endswith(b"\n")


def progress(step: int) -> bytes:
    return f" iteration {step:8d}/    5000 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.1E+00 | grad norm: 0.4 |\n".encode()


def test_a_crash_is_said_within_seconds_and_once(tmp_path: Path) -> None:
    world = World(tmp_path / "job.log")
    for step in range(1, 30):
        world.write(progress(step))
        world.wait(1)
    world.write(b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    crashed = world.now
    world.wait(40)
    trouble = [e for e in world.events if e.kind is Kind.TROUBLE]
    assert len(trouble) == 1 and trouble[0].time_s - crashed <= 5
    assert trouble[0].result is not None and trouble[0].result.diagnosis.failure_class == "gpu_memory.cuda_oom"
    assert world.kinds().count(Kind.ENDED) == 1


def test_silence_beyond_the_jobs_own_rhythm_is_a_warning_then_a_hang(tmp_path: Path) -> None:
    world = World(tmp_path / "job.log")
    for step in range(1, 40):
        world.write(progress(step))
        world.wait(1)
    world.wait(600)
    assert [k for k in world.kinds() if k in (Kind.HANG_WARNING, Kind.HANG)] == [Kind.HANG_WARNING, Kind.HANG]
    hang = next(e for e in world.events if e.kind is Kind.HANG)
    assert hang.result is not None and hang.result.diagnosis.outcome is Outcome.HUNG


def test_long_evaluations_that_the_job_has_shown_are_no_hang(tmp_path: Path) -> None:
    world = World(tmp_path / "job.log")
    for step in range(1, 60):
        world.write(progress(step))
        world.wait(100 if step % 20 == 0 else 1)
    assert Kind.HANG not in world.kinds() and Kind.TROUBLE not in world.kinds()


def test_what_stands_in_the_file_at_the_start_is_history(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"KeyError: 'labels'\nsrun: error: gpu-1: task 0: Exited with exit code 1\n")
    world = World(log, history=True)
    world.wait(60)
    assert Kind.TROUBLE not in world.kinds()


def test_a_requeued_attempt_that_truncates_its_log_begins_anew(tmp_path: Path) -> None:
    world = World(tmp_path / "job.log")
    world.write(b"KeyError: 'labels' and some more text so that the new file is shorter\n")
    world.wait(30)
    world.log.write_bytes(progress(1))
    world.wait(5)
    assert world.kinds().count(Kind.TROUBLE) == 1
    assert Kind.REPLACED in world.kinds()


def test_no_rhythm_no_verdict() -> None:
    rhythm = Rhythm()
    assert rhythm.judge(1e6, least_s=60.0) is Verdict.UNKNOWN
    rhythm.progress(1.0)
    assert rhythm.judge(1e6, least_s=60.0) is Verdict.UNKNOWN
