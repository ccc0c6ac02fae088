"""Killed at every point, alone and together with slurmctld; changes acknowledged and lost, done without an answer."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from play import Play, advise

from attribution.model import Action, Disposition
from attribution.reconcile import Reason, read_ledger
from attribution.reconcile.terms import Event
from attribution.schedulers.base import ReplyKind, StepKind
from demo.lab import Lab

pytestmark = pytest.mark.slurm

ONCE = '[ -n "$SLURM_RESTART_COUNT" ] || exit 1; sleep 60'


@pytest.mark.parametrize("with_controller", [False, True], ids=["alone", "with slurmctld"])
def test_killed_at_every_point_it_goes_on_from_what_slurm_shows(
    crashing_lab: Lab, tmp_path: Path, with_controller: bool
) -> None:
    lab = crashing_lab
    play = Play(lab=lab, folder=tmp_path)
    job_id = lab.submit(ONCE, "-N1")
    job = play.ended(job_id)
    time.sleep(3 if with_controller else 0)  # the job itself must be on slurmctld's disk
    advice = tmp_path / "advice.pickle"
    advice.write_bytes(pickle.dumps(advise(job, Action.RESTART_EXCLUDING, job.nodes)))
    victim = str(Path(__file__).with_name("victim.py"))
    deaths = 0
    for die_at in range(1, 60):
        args = [sys.executable, victim, str(tmp_path), lab.env["SLURM_CONF"], str(advice), str(die_at)]
        done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        deaths += 1
        if with_controller and die_at % 2:
            lab.kill("slurmctld")
            lab.start_controller()
    assert done.stdout.split() == ["CONVERGED", "DESIRED_STATE_OBSERVED"]
    assert deaths >= 5
    after = play.job(job_id)
    assert after.restart == 1, "requeued exactly once"
    assert after.excluded == job.nodes
    assert after.state in ("PENDING", "RUNNING") and after.priority > 0
    assert list(read_ledger(tmp_path)), "the ledger is whole"


def last_intent(folder: Path) -> StepKind | None:
    steps = [entry.step for entry in read_ledger(folder) if entry.event is Event.INTENT]
    return steps[-1] if steps else None


def test_an_acknowledged_requeue_that_the_controller_forgot_is_done_again(crashing_lab: Lab, tmp_path: Path) -> None:
    lab = crashing_lab
    play = Play(lab=lab, folder=tmp_path)
    job_id = lab.submit(ONCE, "-N1")
    job = play.ended(job_id)
    time.sleep(6)  # saved
    crashed: list[str] = []

    def crash(name: str) -> None:
        if name == "after result" and last_intent(tmp_path) is StepKind.REQUEUE_HOLD and not crashed:
            lab.kill("slurmctld")
            lab.start_controller()
            crashed.append(play.job(job_id).state)

    play.checkpoint = crash
    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, job.nodes))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps.count("SLURM_REQUEUE_HOLD") == (2 if crashed == ["FAILED"] else 1)
    assert play.job(job_id).restart == 1


def test_a_requeue_done_without_an_answer_is_not_done_again(crashing_lab: Lab, tmp_path: Path) -> None:
    lab = crashing_lab
    play = Play(lab=lab, folder=tmp_path)
    job_id = lab.submit(ONCE, "-N1")
    job = play.ended(job_id)
    stopped: list[str] = []

    def stop(name: str) -> None:
        if last_intent(tmp_path) is not StepKind.REQUEUE_HOLD:
            return
        if name == "before act" and not stopped:
            lab.kill("slurmctld", signal.SIGSTOP)
            stopped.append(name)
        elif name == "before result" and len(stopped) == 1:
            lab.kill("slurmctld", signal.SIGCONT)
            stopped.append(name)
            time.sleep(0.5)

    play.checkpoint = stop
    verdict, steps = play.reconcile(advise(job, Action.RESTART))
    assert (verdict.disposition, verdict.reason) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)
    assert steps.count("SLURM_REQUEUE_HOLD") == 1
    replies = [e.reply for e in read_ledger(tmp_path) if e.event is Event.RESULT]
    assert ReplyKind.UNKNOWN in replies, "Slurm said Unexpected message received"
    assert play.job(job_id).restart == 1


def test_a_controller_that_is_away_means_wait(crashing_lab: Lab, tmp_path: Path) -> None:
    lab = crashing_lab
    play = Play(lab=lab, folder=tmp_path)
    job_id = lab.submit(ONCE, "-N1")
    job = play.ended(job_id)
    time.sleep(3)
    lab.kill("slurmctld")
    with pytest.raises(AssertionError, match="VIEW_INCOMPLETE"):
        play.reconcile(advise(job, Action.RESTART), timeout_s=1)
    lab.start_controller()
    verdict, _ = play.reconcile(advise(job, Action.RESTART))
    assert verdict.disposition is Disposition.CONVERGED
