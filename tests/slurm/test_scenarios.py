"""Failures that really happen, played on real daemons, and what the reconciler makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from play import Play, advise

from attribution.model import Action, Disposition, Exclusion
from attribution.reconcile import Limits, Mode, Reason, read_ledger
from attribution.reconcile.terms import Event
from attribution.schedulers.rest import RestReader
from attribution.schedulers.runner import ReadRunner
from attribution.schedulers.slurm import SlurmObserver
from demo.lab import USERS, Lab, wait_until

pytestmark = pytest.mark.slurm

FULL = [
    "SAVE_EVIDENCE",
    "SLURM_REQUEUE_HOLD",
    "SLURM_UPDATE_CONSTRAINTS",
    "SLURM_MARK",
    "SLURM_RELEASE",
    "SLURM_START_NOW",
]
#: Fails on its first attempt, runs a moment on later ones; says where it is.
ONCE = 'echo "on $SLURM_JOB_NODELIST restart ${SLURM_RESTART_COUNT-0}"; [ -n "$SLURM_RESTART_COUNT" ] || %s; sleep 3'


@pytest.fixture
def play(lab: Lab, tmp_path: Path) -> Play:
    return Play(lab=lab, folder=tmp_path)


def test_a_crashed_job_runs_again_without_the_bad_node(play: Play) -> None:
    job_id = play.lab.submit(ONCE % "exit 7", "-N2", "-o", "crash-%j.out")
    job = play.ended(job_id)
    assert (job.state, job.exit_code) == ("FAILED", 7)
    bad = job.nodes[0]

    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, [bad]))

    assert (verdict.disposition, verdict.reason) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)
    assert steps == FULL
    after = play.until(job_id, "started", lambda j: j.state in ("RUNNING", "COMPLETED"))
    assert after.restart == 1
    assert after.excluded == (bad,) and bad not in after.nodes
    assert after.admin_comment == f"recovery:{verdict.advice_id}"
    record = next((play.folder / "evidence").glob("*/record.json")).read_text()
    assert '"state": "FAILED"' in record and '"exit_code": "7:0"' in record
    assert "restart 0" in next((play.folder / "evidence").glob("*/log0.txt")).read_text()
    # a second look at the same Advice does nothing
    again, more = play.reconcile(advise(job, Action.RESTART_EXCLUDING, [bad]))
    assert again.disposition is Disposition.CONVERGED and not more


def test_a_segfault_is_a_failure_like_any_other(play: Play) -> None:
    job_id = play.lab.submit(ONCE % "kill -SEGV $$", "-N1")
    job = play.ended(job_id)
    assert job.state == "FAILED"
    verdict, _ = play.reconcile(advise(job, Action.RESTART))
    assert verdict.disposition is Disposition.CONVERGED


def test_a_running_attempt_is_stopped_and_restarted_elsewhere(play: Play) -> None:
    job_id = play.lab.submit("sleep 60", "-N1", "--exclude=gpu-004")
    job = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, job.nodes))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps[:2] == FULL[:2]
    after = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    assert set(after.excluded) == {"gpu-004", *job.nodes}, "the user's own exclusion stays"
    play.lab.run("scancel", job_id)


def test_a_hung_job_is_terminated(play: Play) -> None:
    job_id = play.lab.submit("sleep 60", "-N1")
    job = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    verdict, steps = play.reconcile(advise(job, Action.TERMINATE))
    assert (verdict.disposition, verdict.reason) == (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)
    assert steps == ["SAVE_EVIDENCE", "SLURM_CANCEL"]
    assert play.job(job_id).state == "CANCELLED"


def test_what_a_person_cancelled_stays_cancelled(play: Play) -> None:
    job_id = play.lab.submit("sleep 60", "-N1")
    job = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    play.lab.run("scancel", job_id, user=USERS[0])
    verdict, steps = play.reconcile(advise(job, Action.RESTART))
    assert verdict.reason is Reason.JOB_CANCELLED and not steps
    assert play.job(job_id).state == "CANCELLED"


def test_a_lost_node_requeues_the_job_and_only_the_exclusion_is_added(play: Play) -> None:
    job_id = play.lab.submit("sleep 30", "-N1", "--requeue")
    job = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    bad = job.nodes[0]
    play.lab.run("scontrol", "update", f"NodeName={bad}", "State=DOWN", "Reason=dead")
    play.until(job_id, "requeued", lambda j: j.restart == 1 and j.state == "PENDING" and not j.completing)
    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, [bad]))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps == ["SLURM_UPDATE_CONSTRAINTS"]
    play.lab.run("scontrol", "update", f"NodeName={bad}", "State=RESUME")
    assert play.job(job_id).excluded == (bad,)
    play.lab.run("scancel", job_id)


def test_a_preempted_job_comes_back_by_itself(play: Play) -> None:
    job_id = play.lab.submit("sleep 30", "-N4", "-p", "low", "--exclusive")
    job = play.until(job_id, "running", lambda j: j.state == "RUNNING")
    other = play.lab.submit("sleep 2", "-N4", "-p", "high", "--exclusive")
    play.until(job_id, "preempted", lambda j: j.restart == 1 and not j.completing)
    verdict, steps = play.reconcile(advise(job, Action.RESTART))
    assert (verdict.disposition, verdict.reason) == (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)
    assert not steps
    play.lab.run("scancel", job_id, other)


def test_a_job_out_of_memory_is_a_failure(play: Play) -> None:
    hog = "python3 -c 'b = bytearray(400 << 20); import time; time.sleep(20)'"
    job_id = play.lab.submit(ONCE % hog, "-N1", "--mem=50")
    job = play.ended(job_id)
    assert job.state in ("FAILED", "OUT_OF_MEMORY", "CANCELLED")
    verdict, _ = play.reconcile(advise(job, Action.HOLD))
    assert (verdict.disposition, verdict.reason) == (Disposition.CONVERGED, Reason.ALREADY_SATISFIED)


def test_slurms_own_hold_after_a_failed_prolog_is_lifted_with_the_node_excluded(play: Play) -> None:
    flag = play.lab.root / "flags" / "prolog-gpu-001"
    flag.touch()
    job_id = play.lab.submit("sleep 3", "-N1", "-w", "gpu-001")
    try:
        job = play.until(job_id, "held", lambda j: j.restart == 1 and j.state == "PENDING" and not j.completing)
    finally:
        flag.unlink()
    assert play.observer.observe().nodes["gpu-001"].reason == "Prolog error"
    key = advise(job, Action.RESTART_EXCLUDING, ["gpu-002"]).attempt
    before = play.observer.accounting(job)
    assert before
    submitted = _first_submit(play.lab, job_id)
    advice = advise(job, Action.RESTART_EXCLUDING, ["gpu-002"])
    advice = advise(job, Action.RESTART_EXCLUDING, ["gpu-002"], attempt=_at(key, submitted, 0), name=advice.id)
    verdict, steps = play.reconcile(advice)
    assert verdict.disposition is Disposition.CONVERGED, verdict
    assert steps == ["SLURM_UPDATE_CONSTRAINTS", "SLURM_MARK", "SLURM_RELEASE"]
    assert play.observer.observe().nodes["gpu-001"].drained, "a drain that is not ours stays"
    play.lab.run("scontrol", "update", "NodeName=gpu-001", "State=UNDRAIN")
    play.lab.run("scancel", job_id)


def _first_submit(lab: Lab, job_id: str) -> int:
    done = lab.run("sacct", "-n", "-P", "-X", "-D", "-j", job_id, "-o", "Submit")
    from datetime import datetime

    return int(datetime.fromisoformat(done.stdout.split()[0]).timestamp())


def _at(key: object, submit_s: int, restart: int) -> object:
    from dataclasses import replace

    return replace(key, submit_time_s=submit_s, restart=restart)  # type: ignore[type-var]


def test_a_persons_hold_in_the_middle_wins_until_the_person_lifts_it(play: Play) -> None:
    job_id = play.lab.submit(ONCE % "exit 1", "-N1")
    job = play.ended(job_id)
    held: list[str] = []

    def meddle(name: str) -> None:
        if name == "after result" and play.job(job_id).restart == 1 and not held:
            play.lab.run("scontrol", "hold", job_id)
            held.append(name)

    play.checkpoint = meddle
    advice = advise(job, Action.RESTART_EXCLUDING, job.nodes)
    with pytest.raises(AssertionError, match="HELD_BY_PERSON"):
        play.reconcile(advice, timeout_s=3)
    now = play.job(job_id)
    assert now.state == "PENDING" and not now.excluded
    play.lab.run("scontrol", "release", job_id)
    verdict, _ = play.reconcile(advice)
    assert verdict.disposition is Disposition.CONVERGED
    assert play.job(job_id).excluded == job.nodes


def test_a_user_who_requeues_first_is_not_requeued_again(play: Play) -> None:
    job_id = play.lab.submit(ONCE % "exit 1", "-N1")
    job = play.ended(job_id)

    def race(name: str) -> None:
        if name == "before act" and play.job(job_id).restart == 0 and (play.folder / "evidence").exists():
            play.lab.run("scontrol", "requeue", job_id, user=USERS[0])

    play.checkpoint = race
    verdict, steps = play.reconcile(advise(job, Action.RESTART))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps == ["SAVE_EVIDENCE", "SLURM_REQUEUE_HOLD"]
    assert play.job(job_id).restart == 1


def test_one_array_task_is_restarted_and_the_others_are_left_alone(play: Play) -> None:
    script = '[ "$SLURM_ARRAY_TASK_ID" != 3 ] || [ -n "$SLURM_RESTART_COUNT" ] || exit 4'
    array = play.lab.submit(script, "-N1", "--array=0-3")
    for task in range(4):
        play.ended(f"{array}_{task}")
    job = play.job(f"{array}_3")
    assert job.raw_id == int(array), "the last task carries the array's own id: the trap"

    ambiguous, _ = play.reconcile(advise(job, Action.RESTART, name="a1", attempt=_named(job.id, array, job)))
    assert ambiguous.reason is Reason.ARRAY_ID_AMBIGUOUS
    verdict, _ = play.reconcile(advise(job, Action.RESTART, name="a2"))
    assert verdict.disposition is Disposition.CONVERGED
    play.ended(f"{array}_3")
    assert [play.job(f"{array}_{task}").restart for task in range(4)] == [0, 0, 0, 1]


def _named(job_id: str, other: str, job: object) -> object:
    from dataclasses import replace

    return replace(advise(job, Action.RESTART).attempt, job_id=other)  # type: ignore[arg-type]


def test_a_heterogeneous_job_is_requeued_as_a_whole_and_every_part_avoids_the_node(play: Play) -> None:
    script = play.lab.root / "jobs" / "het.sh"
    script.write_text("#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\nsleep 30\n")
    done = play.lab.run("sbatch", "--parsable", "het.sh", user=USERS[0])
    leader = done.stdout.strip().partition(";")[0]
    job = play.until(leader, "running", lambda j: j.state == "RUNNING")
    bad = job.nodes[0]
    verdict, _ = play.reconcile(advise(job, Action.RESTART_EXCLUDING, [bad]))
    assert verdict.disposition is Disposition.CONVERGED
    parts = play.observer.observe().components(int(leader))
    assert [part.excluded for part in parts] == [(bad,), (bad,)]
    play.lab.run("scancel", leader)


@pytest.mark.parametrize("options", [["--no-requeue"], ["-w", "gpu-001"]], ids=["no-requeue", "pinned"])
def test_jobs_that_cannot_be_restarted_are_not_touched(play: Play, options: list[str]) -> None:
    job_id = play.lab.submit("exit 1", "-N1", *options)
    job = play.ended(job_id)
    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, ["gpu-001"]))
    assert verdict.disposition is Disposition.ABANDONED
    assert verdict.reason in (Reason.NOT_REQUEUEABLE, Reason.PINNED_NODES)
    assert not steps and play.job(job_id).state == "FAILED"


def test_exclusions_that_leave_too_few_nodes_are_refused_before_anything_is_touched(play: Play) -> None:
    job_id = play.lab.submit("exit 1", "-N4")
    job = play.ended(job_id)
    verdict, steps = play.reconcile(advise(job, Action.RESTART_EXCLUDING, ["gpu-001"]))
    assert verdict.reason is Reason.INFEASIBLE_CONSTRAINTS and not steps


def test_a_drain_carries_our_name_and_never_overwrites_another(play: Play) -> None:
    play.lab.run("scontrol", "update", "NodeName=gpu-003", "State=DRAIN", "Reason=waiting for parts")
    play.limits = Limits(require_opt_in=False, settle_s=0.3, allow_drain=True, max_drained_share=0.5)
    job_id = play.lab.submit("exit 1", "-N1")
    job = play.ended(job_id)
    drain = tuple(Exclusion(node=node, because="Xid 79 'x' in\nkernel log") for node in ("gpu-002", "gpu-003"))
    verdict, steps = play.reconcile(advise(job, Action.HOLD, drain=drain, name="adv-d"))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps == ["SLURM_DRAIN"]
    nodes = play.observer.observe().nodes
    assert nodes["gpu-003"].reason == "waiting for parts"
    assert nodes["gpu-002"].ours and nodes["gpu-002"].reason == "recovery:adv-d Xid 79 x in kernel log"
    for name in ("gpu-002", "gpu-003"):
        play.lab.run("scontrol", "update", f"NodeName={name}", "State=UNDRAIN")
    wait_until("nodes back", lambda: play.lab.node_states().count("idle") == 4)


def test_observe_mode_writes_every_step_and_changes_nothing(play: Play) -> None:
    job_id = play.lab.submit("exit 1", "-N1")
    job = play.ended(job_id)
    play.act = False
    with pytest.raises(AssertionError, match="not settled"):
        play.reconcile(advise(job, Action.RESTART_EXCLUDING, job.nodes), timeout_s=0.5)
    after = play.job(job_id)
    assert after == job
    entries = list(read_ledger(play.folder))
    assert {e.mode for e in entries} == {Mode.OBSERVE}
    assert [str(e.step) for e in entries if e.event is Event.WOULD] == FULL
    assert f"scontrol requeuehold {job_id}" in [e.text for e in entries]


def test_hostile_comments_and_names_stay_data(play: Play) -> None:
    hostile = 'x\nJobState=RUNNING\n\x1b[31m" ; rm -rf / #'
    job_id = play.lab.submit("exit 1", "-N1", f"--comment={hostile}", f"--job-name={hostile}")
    job = play.ended(job_id)
    assert job.state == "FAILED" and job.comment.startswith("x\nJobState")
    verdict, _ = play.reconcile(advise(job, Action.RESTART))
    assert verdict.disposition is Disposition.CONVERGED
    ledger = (play.folder / "ledger.jsonl").read_text()
    assert "\x1b" not in ledger and "rm -rf" not in ledger


def as_user(play: Play, user: str) -> Play:
    """The same play, its commands given by an unprivileged user."""
    folder = play.folder / "bin"
    folder.mkdir()
    for name in ("scontrol", "scancel"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec setpriv --reuid={user} --regid={user} --clear-groups {name} "$@"\n')
        path.chmod(0o755)
    play.bin_dir = str(folder)
    return play


def test_the_jobs_owner_has_rights_enough_for_a_restart(play: Play) -> None:
    job_id = play.lab.submit(ONCE % "exit 1", "-N1")
    job = play.ended(job_id)
    verdict, steps = as_user(play, USERS[0]).reconcile(advise(job, Action.RESTART_EXCLUDING, job.nodes))
    assert verdict.disposition is Disposition.CONVERGED
    assert steps == FULL, "the mark is tried once, refused, and left out"
    after = play.job(job_id)
    assert after.excluded == job.nodes and after.admin_comment == ""
    replies = {str(e.step): str(e.reply) for e in read_ledger(play.folder) if e.event is Event.RESULT}
    assert replies["SLURM_MARK"] == "denied" and replies["SLURM_RELEASE"] == "accepted"


def test_another_users_job_is_refused_and_that_is_final(play: Play) -> None:
    job_id = play.lab.submit("exit 1", "-N1", user=USERS[1])
    job = play.ended(job_id)
    verdict, steps = as_user(play, USERS[0]).reconcile(advise(job, Action.RESTART))
    assert verdict.reason is Reason.NOT_PERMITTED and steps == FULL[:2]
    assert play.job(job_id) == job


def test_from_a_folder_of_logs_to_a_restart_by_two_commands(play: Play) -> None:
    """`recovery analyze` and `recovery reconcile` with a store between; the log alone does not know the submit time."""
    words = 'echo "RuntimeError: NCCL error: unhandled system error" >&2; exit 1'
    folder = play.lab.root / "jobs"
    comment = '{"recovery": {"act": true}}'
    options = ("-N1", f"--comment={comment}", "-o", f"{folder}/story-%j.out")
    job_id = play.lab.submit("echo SLURM_JOB_ID=$SLURM_JOB_ID; " + ONCE % f"( {words} ); exit 1", *options)
    play.ended(job_id)
    env = {**os.environ, **play.lab.env}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    store = str(play.folder / "store")

    def recovery(*args: str) -> str:
        done = subprocess.run(("recovery", *args), env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    recovery("analyze", f"{folder}/story-{job_id}.out", "--store", store, "-f", "jsonl", "-q", "--cluster", "lab")
    told = recovery("reconcile", "--store", store, "--once")
    assert "SLURM_REQUEUE_HOLD  would" in told
    assert play.job(job_id).restart == 0
    for _ in range(30):
        told = recovery("reconcile", "--mode", "act", "--partition", "main", "--store", store, "--once")
        if "CONVERGED" in told:
            break
    assert "CONVERGED  DESIRED_STATE_OBSERVED" in told
    assert play.job(job_id).restart == 1
    play.lab.run("scancel", job_id)


def test_slurmrestd_shows_the_same_picture(play: Play) -> None:
    job_id = play.lab.submit("exit 1", "-N1")
    job = play.ended(job_id)
    rest = SlurmObserver(runner=ReadRunner(), rest=RestReader(url=play.lab.start_rest()))
    world = rest.observe()
    assert world.whole, world.problems
    assert world.jobs[job_id] == job
    assert set(world.nodes) == set(play.observer.observe().nodes)


def test_a_job_at_its_time_limit(tmp_path: Path, timed_out: tuple[Lab, str]) -> None:
    """Last, because Slurm's shortest limit is a minute; the job was started with the cluster."""
    lab, job_id = timed_out
    play = Play(lab=lab, folder=tmp_path)
    job = play.ended(job_id, timeout_s=120)
    assert job.state == "TIMEOUT"
    verdict, steps = play.reconcile(advise(job, Action.RESTART))
    assert verdict.disposition is Disposition.CONVERGED and steps[1] == "SLURM_REQUEUE_HOLD"
    lab.run("scancel", job_id)
