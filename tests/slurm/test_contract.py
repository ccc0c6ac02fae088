"""The contract of tests/schedulers/contract.py on real daemons."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from play import Play

from demo.lab import USERS, Lab, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "schedulers"))
from contract import Contract

from attribution.schedulers.base import Job
from attribution.schedulers.runner import CommandRunner
from attribution.schedulers.slurm import SlurmActor

pytestmark = pytest.mark.slurm


@dataclass
class RealBench:
    play: Play

    def __post_init__(self) -> None:
        self.observer = self.play.observer
        self.actor = SlurmActor(runner=CommandRunner(env={**os.environ, **self.play.lab.env}))

    def submit(self, *, seconds: float, end: str, requeue: bool = True) -> str:
        script = f"sleep {seconds}; exit {0 if end == 'COMPLETED' else 3}"
        return self.play.lab.submit(script, "-N1", *([] if requeue else ["--no-requeue"]))

    def array(self, tasks: int) -> str:
        return self.play.lab.submit("exit 3", "-N1", f"--array=0-{tasks - 1}")

    def until(self, job_id: str, check: Callable[[Job], bool]) -> Job:
        return self.play.until(job_id, check.__name__, check)

    def person(self, verb: str, job_id: str, *, root: bool = False) -> None:
        args = ("scancel", job_id) if verb == "cancel" else ("scontrol", verb, job_id)
        assert self.play.lab.run(*args, user=None if root else USERS[0]).returncode == 0

    def now(self) -> float:
        return time.time()

    def drain(self, node: str, reason: str) -> None:
        self.play.lab.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")


@pytest.fixture
def bench(lab: Lab, tmp_path: Path) -> Iterator[RealBench]:
    yield RealBench(Play(lab=lab, folder=tmp_path))
    lab.run("scancel", f"--user={USERS[0]}")
    left = ("squeue", "-h", "-u", USERS[0], "-t", "RUNNING,COMPLETING")
    wait_until("jobs gone", lambda: not lab.run(*left).stdout.strip())


class TestReal(Contract):
    pass
