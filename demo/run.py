"""The whole story on a real Slurm: ``python -m demo`` (root; about half a minute).

A training job of four processes on two nodes runs with checkpoints. The memory of a GPU on one node breaks. The log is
diagnosed, Advice is written, the job is requeued without that node, loads its checkpoint and finishes. Times are
measured from the moment the broken rank failed; what Slurm itself waits for is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from attribution.analyze import Analyzer, Options, Result
from attribution.model import Action, Outcome, to_plain
from attribution.policy.optin import parse_comment
from attribution.reconcile import Ledger, Limits, Reconciler, Round, read_ledger
from attribution.reconcile.documents import complete
from attribution.reconcile.loop import Loop
from attribution.reconcile.terms import Event
from attribution.schedulers.base import Job, StepKind
from attribution.schedulers.runner import CommandRunner, ReadRunner
from attribution.schedulers.slurm import SlurmActor, SlurmObserver, commands_of
from attribution.sources.discover import discover
from demo.lab import USERS, Lab, LabError, wait_until

BREAK_AT_STEP = 25
COMMENT = '{"recovery": {"act": true, "policy": "default"}}'
_SCRIPT = "env | grep -E '^SLURM_(JOB_|RESTART)' | sort; srun -l --kill-on-bad-exit=1 --mpi=none {python} -u {train}"


@dataclass(slots=True, kw_only=True)
class Story:
    """Times of the story, in seconds since the epoch."""

    failed_s: float = 0.0
    line_read_s: float = 0.0
    diagnosed_s: float = 0.0
    ended_s: float = 0.0
    released_s: float = 0.0
    running_s: float = 0.0
    done_s: float = 0.0
    slurm_wait_s: float = 0.0
    bad_node: str = ""
    result: Result | None = None
    steps: list[tuple[str, float]] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """The measured times, in seconds after the failing line."""
        since = self.failed_s
        return {
            "detect_s": round(self.diagnosed_s - since, 2),
            "act_s": round(self.released_s - since, 2),
            "act_without_slurms_waits_s": round(self.released_s - since - self.slurm_wait_s, 2),
            "slurm_waits_s": round(self.slurm_wait_s, 2),
            "running_again_s": round(self.running_s - since, 2),
        }


def tell(text: str, stream: object = None) -> None:
    """One line of the story."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def submit(lab: Lab, nodes: int) -> tuple[str, Path]:
    """Start the training as an unprivileged user; the job id and its log."""
    folder = lab.root / "jobs"
    train = folder / "train.py"
    shutil.copy(Path(__file__).with_name("train.py"), train)
    train.chmod(0o644)
    # a virtual environment may lie where the job's user cannot read; the script needs nothing but plain Python
    script = _SCRIPT.format(python="/usr/bin/python3", train=train)
    job_id = lab.submit(
        script,
        f"-N{nodes}",
        "--ntasks-per-node=2",
        "--requeue",
        f"--comment={COMMENT}",
        "--job-name=demo-training",
        f"--export=ALL,DEMO_FOLDER={folder}",
        f"--output={folder}/train-%j.out",
    )
    return job_id, folder / f"train-{job_id}.out"


def watch(analyzer: Analyzer, log: Path, story: Story, ended: Callable[[], bool], timeout_s: float = 60.0) -> Result:
    """Diagnose the log whenever it has grown and been quiet for a moment, until the attempt is seen to have failed."""
    seen_bytes, grown_s, end = 0, 0.0, time.monotonic() + timeout_s
    while time.monotonic() < end:
        size = log.stat().st_size if log.exists() else 0
        now = time.monotonic()
        if size != seen_bytes:
            seen_bytes, grown_s = size, now
        quiet = now - grown_s
        if size and (0.3 < quiet < 0.6 or (quiet > 0.1 and b"Traceback" in log.read_bytes()[-20_000:])):
            results = [r for job in discover([str(log)]).groups for r in analyzer.job(job)]
            if (
                results
                and results[-1].diagnosis.outcome in (Outcome.FAILED, Outcome.HUNG)
                and (quiet > 0.25 or ended())
            ):
                story.diagnosed_s = time.time()
                return results[-1]
        time.sleep(0.05)
    raise LabError("the failure was not diagnosed")


def restart(lab: Lab, log: Path, job_id: str, story: Story, result: Result) -> None:
    """Carry out the Advice and note when what was done."""
    env = {**os.environ, **lab.env}
    runner = ReadRunner(env=env)
    observer = SlurmObserver(runner=runner, opt_in=parse_comment)
    limits = Limits(partitions=frozenset({"main"}), settle_s=3.0)
    advice = replace(result.advice, issued_at_s=time.time(), valid_until_s=time.time() + 600)
    waited_from: list[float] = []

    def report(seen: Round) -> None:
        now = time.time()
        job = seen.world.jobs.get(job_id)
        for done in seen.steps:
            story.steps.append((str(done.step.kind), now))
            for args in done.commands:
                tell("    " + " ".join(args))
            if done.step.kind is StepKind.RELEASE:
                story.released_s = now
        _count_wait(story, waited_from, job, bool(seen.steps), now)
        if job is not None and job.restart and job.state == "RUNNING" and not story.running_s:
            story.running_s = now

    with Ledger(lab.root / "store" / "ledger") as ledger:
        reconciler = Reconciler(
            observer=observer,
            ledger=ledger,
            limits=limits,
            actor=SlurmActor(runner=CommandRunner(env=env, calls=runner.calls)),
            commands=commands_of,
        )
        loop = Loop(
            reconciler=reconciler,
            load=lambda world: [complete(advice, [str(log)], world, ledger.about(advice.id))],
            report=report,
        )
        last = loop.run(until_settled=True)
    verdict = last.verdicts[0]
    tell(f"{verdict.disposition}: {verdict.reason} {verdict.detail}; {sum(runner.calls.values())} calls to Slurm")


def _count_wait(story: Story, since: list[float], job: Job | None, acted: bool, now: float) -> None:
    """Time in which nothing could be done because Slurm was cleaning up the attempt."""
    waits = job is not None and job.completing and not acted
    if waits and not since:
        since.append(now)
    elif not waits and since:
        story.slurm_wait_s += now - since.pop()


def receipt(lab: Lab, analyzer: Analyzer, log: Path, story: Story) -> list[str]:
    """What the restart cost and whether it did what it should."""
    results = [r for job in discover([str(log)]).groups for r in analyzer.job(job)]
    first, second = results[0].diagnosis, results[-1].diagnosis
    before, after = first.progress, second.progress
    times = story.document()
    redone = (before.last_step or 0) - (after.loaded_checkpoint_step or 0)
    entries = list(read_ledger(lab.root / "store" / "ledger"))
    return [
        f"cause            {first.failure_class} ({first.status}, {first.confidence:.2f})",
        f"root line        {log.name}:{first.root.line if first.root else '?'}  {first.root.text if first.root else ''}",
        f"blamed           node {', '.join(first.culprit.nodes) or '?'}, rank {', '.join(map(str, first.culprit.ranks)) or '?'}",
        f"really broken    node {story.bad_node}",
        f"failed at step   {before.last_step}, last checkpoint {before.last_checkpoint_step}",
        f"second attempt   loaded step {after.loaded_checkpoint_step}, redid {redone} steps, ended {second.outcome}"
        f" at step {after.last_step}",
        f"ledger           {sum(e.event is Event.INTENT for e in entries)} intents, all answered",
        f"failing line -> diagnosis           {times['detect_s']:6.2f} s   (target < 2 s)",
        f"failing line -> released successor  {times['act_s']:6.2f} s,"
        f" {times['act_without_slurms_waits_s']} s without Slurm's own waits ({times['slurm_waits_s']} s) (target < 10 s)",
        f"failing line -> running again       {times['running_again_s']:6.2f} s",
    ]


def play(lab: Lab) -> Story:
    """The story. Raises LabError when a part of it does not happen."""
    story = Story()
    analyzer = Analyzer(Options(cluster="lab", mine=False))
    observer = SlurmObserver(runner=ReadRunner(env={**os.environ, **lab.env}))
    job_id, log = submit(lab, nodes=2)
    wait_until("training runs", lambda: b"iteration" in (log.read_bytes() if log.exists() else b""), 30)
    story.bad_node = observer.observe().jobs[job_id].nodes[1]
    tell(f"job {job_id} trains on {', '.join(observer.observe().jobs[job_id].nodes)}; log {log}")
    (lab.root / "jobs" / f"fault-{story.bad_node}-1").write_text(str(BREAK_AT_STEP))
    tell(f"fault injected: GPU 1 of {story.bad_node} breaks at step {BREAK_AT_STEP}")
    stamp = lab.root / "jobs" / "failed-at"

    def gone() -> bool:
        return observer.observe().jobs[job_id].state != "RUNNING"

    result = watch(analyzer, log, story, gone)
    story.failed_s = float(stamp.read_text())
    d, advice = result.diagnosis, result.advice
    tell(f"diagnosed: {d.failure_class}, {d.status}, node {', '.join(d.culprit.nodes) or 'unknown'}")
    tell(f"advice {advice.id}: {advice.action} {', '.join(advice.exclude_nodes)} ({advice.reason})")
    if advice.action not in (Action.RESTART, Action.RESTART_EXCLUDING):
        raise LabError(f"the Advice is {advice.action}: {json.dumps(to_plain(advice))[:1500]}")
    restart(lab, log, job_id, story, result)
    wait_until("training ends", lambda: observer.observe().jobs[job_id].state == "COMPLETED", 60, 0.3)
    story.done_s = time.time()
    story.result = result
    job = observer.observe().jobs[job_id]
    tell(f"job {job_id} completed on {', '.join(job.nodes)}, ExcNodeList {', '.join(job.excluded) or 'empty'}")
    print("\nReceipt")
    for line in receipt(lab, analyzer, log, story):
        print("  " + line)
    return story


def main() -> int:
    """Run the demo; exit 0 when it went as told."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--nodes", type=int, default=8, help="nodes of the cluster")
    parser.add_argument("--keep", action="store_true", help="copy the job's log and the ledger to ./demo-output")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        with Lab(nodes=options.nodes) as lab:
            tell(f"Slurm is up: {options.nodes} nodes, {time.monotonic() - began:.1f} s; user {USERS[0]}")
            try:
                story = play(lab)
            finally:
                if options.keep:
                    for name in ("jobs", "store"):
                        if (lab.root / name).exists():
                            shutil.copytree(lab.root / name, f"demo-output/{name}", dirs_exist_ok=True)
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    times = story.document()
    good = times["detect_s"] < 2 and times["act_without_slurms_waits_s"] < 10  # type: ignore[operator]
    print(f"\n{time.monotonic() - began:.0f} s in all; targets {'met' if good else 'missed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
