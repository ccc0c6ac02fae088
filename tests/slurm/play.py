"""Words for the scenarios: a reconciler on the lab, Advice about a job as it is now, and waiting for facts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from attribution.model import Action, Advice, AttemptKey, Disposition, Exclusion, Status
from attribution.reconcile import Ledger, Limits, Reconciler, Round, Verdict
from attribution.schedulers.base import Job
from attribution.schedulers.runner import CommandRunner, ReadRunner
from attribution.schedulers.slurm import SlurmActor, SlurmObserver, commands_of
from demo.lab import Lab, wait_until

LIMITS = Limits(require_opt_in=False, settle_s=0.5, backoff_s=0.2, max_exclude_share=0.5)


@dataclass(slots=True, kw_only=True)
class Play:
    """One test's reconciler over the lab."""

    lab: Lab
    folder: Path
    limits: Limits = LIMITS
    act: bool = True
    bin_dir: str = ""
    checkpoint: Callable[[str], None] = lambda name: None
    observer: SlurmObserver = field(init=False)

    def __post_init__(self) -> None:
        runner = ReadRunner(env={**os.environ, **self.lab.env}, time_limit_s=20)
        self.observer = SlurmObserver(runner=runner)

    def job(self, job_id: str) -> Job:
        """The job as Slurm shows it now."""
        return self.observer.observe().jobs[job_id]

    def until(self, job_id: str, what: str, check: Callable[[Job], bool], timeout_s: float = 30.0) -> Job:
        """The job once `check` holds."""
        found: list[Job] = []

        def holds() -> bool:
            job = self.observer.observe().jobs.get(job_id)
            found[:] = [job] if job is not None and check(job) else []
            return bool(found)

        wait_until(f"job {job_id}: {what}", holds, timeout_s, 0.1)
        return found[0]

    def ended(self, job_id: str, timeout_s: float = 30.0) -> Job:
        """The job once it ended."""
        states = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "COMPLETED")
        return self.until(job_id, "ended", lambda job: job.state in states and not job.completing, timeout_s)

    def reconcile(self, advice: Advice | Sequence[Advice], timeout_s: float = 40.0) -> tuple[Verdict, list[str]]:
        """Tick until the (first) Advice is settled; its verdict and the steps given."""
        many = [advice] if isinstance(advice, Advice) else list(advice)
        steps: list[str] = []
        end = time.monotonic() + timeout_s
        with Ledger(self.folder) as ledger:
            hands = CommandRunner(env={**os.environ, **self.lab.env}, bin_dir=self.bin_dir)
            actor = SlurmActor(runner=hands) if self.act else None
            reconciler = Reconciler(
                observer=self.observer,
                ledger=ledger,
                limits=self.limits,
                actor=actor,
                commands=commands_of,
                checkpoint=self.checkpoint,
            )
            while True:
                seen: Round = reconciler.tick(many)
                steps += [str(done.step.kind) for done in seen.steps]
                mine = [v for v in seen.verdicts if v.advice_id == many[0].id]
                if mine and mine[0].disposition is not Disposition.PENDING:
                    return mine[0], steps
                if time.monotonic() > end:
                    raise AssertionError(f"not settled: {steps} {seen.verdicts} {seen.world.problems}")
                time.sleep(0.1)


def advise(job: Job, action: Action, exclude: Sequence[str] = (), name: str = "", **more: object) -> Advice:
    """Advice about the attempt that the job is in."""
    key = AttemptKey(job_id=job.id, cluster="lab", submit_time_s=job.submit_time_s, restart=job.restart)
    advice = Advice(
        id=name or f"adv-{job.raw_id}-{job.restart}",
        attempt=key,
        action=action,
        exclude=tuple(Exclusion(node=node, because="test") for node in exclude),
        issued_at_s=time.time(),
        status=Status.ESTABLISHED,
    )
    return replace(advice, **more)  # type: ignore[arg-type]
