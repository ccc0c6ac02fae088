"""Programs are started without a shell, bounded in time and output; observe mode has nothing that commands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from attribution.model import AttemptKey, SchedulerError
from attribution.schedulers.base import Job, Node, Step, StepKind
from attribution.schedulers.runner import CommandRunner, ReadRunner, printable
from attribution.schedulers.slurm import SlurmObserver, commands_of


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_question_is_answered_and_counted(tmp_path: Path) -> None:
    program(tmp_path, "squeue", 'printf "%s|" "$@" "$SLURM_TIME_FORMAT" "$LC_ALL"; echo err >&2; exit 3')
    runner = ReadRunner(bin_dir=str(tmp_path))
    answer = runner.query("squeue", "-h", "a b; rm -rf /", "$(id)")
    assert (answer.returncode, answer.stdout) == (3, b"-h|a b; rm -rf /|$(id)|%s|C|")
    assert answer.stderr == "err" and runner.calls == {"squeue": 1}


def test_a_program_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    program(tmp_path, "squeue", "sleep 30 & sleep 30")
    began = time.monotonic()
    answer = ReadRunner(bin_dir=str(tmp_path), time_limit_s=0.3).query("squeue")
    assert answer.cut and answer.returncode is None and time.monotonic() - began < 3


def test_endless_output_is_cut(tmp_path: Path) -> None:
    program(
        tmp_path, "squeue", "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"
    )
    answer = ReadRunner(bin_dir=str(tmp_path), max_output_bytes=1 << 20).query("squeue")
    assert answer.cut and len(answer.stdout) < 2 << 20


def test_a_missing_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(SchedulerError, match="cannot start"):
        ReadRunner(bin_dir=str(tmp_path)).query("squeue")


@pytest.mark.parametrize(
    "args",
    [
        ("scontrol", "requeue", "1"),
        ("scontrol", "requeuehold", "1"),
        ("scontrol", "update", "JobId=1"),
        ("scontrol", "--json", "update"),
        ("scancel", "1"),
        ("sbatch", "x"),
        ("sh", "-c", "id"),
        (),
    ],
)
def test_questions_only(args: tuple[str, ...]) -> None:
    for runner in (ReadRunner(), CommandRunner()):
        with pytest.raises(SchedulerError):
            runner.query(*args)


@pytest.mark.parametrize("args", [("scontrol", "requeue", "1"), ("scontrol", "reconfigure"), ("sbatch", "x"), ("sh",)])
def test_few_commands_only(args: tuple[str, ...]) -> None:
    with pytest.raises(SchedulerError):
        CommandRunner().command(*args)


def test_observing_has_no_way_to_command() -> None:
    assert not hasattr(ReadRunner(), "command")
    observer = SlurmObserver(runner=ReadRunner())
    assert not any(hasattr(observer, name) for name in ("act", "commands", "command"))


def test_text_of_others_is_one_bounded_printable_line() -> None:
    assert printable("a\nb\x1b[31mc\r\t d\u202e") == "a b [31mc d"
    assert len(printable("x" * 10_000_000)) == 500


KEY = AttemptKey(job_id="7", submit_time_s=1)


def job(name: str) -> Job:
    return Job(id=name, raw_id=7, state="FAILED", submit_time_s=1, restart=0, user="a")


@pytest.mark.parametrize("name", ["7 8", "-1", "7;id", "all", "7,8", "7_[1-3]", "", "0", "٧"])
def test_ids_that_are_none_never_reach_a_command(name: str) -> None:
    with pytest.raises(SchedulerError):
        commands_of(Step(kind=StepKind.CANCEL, advice_id="a", attempt=KEY, job=job(name)))


@pytest.mark.parametrize("name", ["gpu-[1-9]", "ALL", "a,b", "a b", "-x", "x=y", "a\nb"])
def test_node_names_that_are_none_never_reach_a_command(name: str) -> None:
    node = Node(name=name, state="IDLE")
    step = Step(kind=StepKind.DRAIN, advice_id="a", attempt=KEY, node=node, text="x")
    if name != "ALL":  # a possible name; but only nodes that Slurm listed are ever planned with
        with pytest.raises(SchedulerError):
            commands_of(step)
        with pytest.raises(SchedulerError):
            commands_of(
                Step(kind=StepKind.UPDATE_CONSTRAINTS, advice_id="a", attempt=KEY, job=job("7"), exclude=(name,))
            )


def test_reasons_are_ours_bounded_and_quiet() -> None:
    node = Node(name="gpu-001", state="IDLE")
    step = Step(kind=StepKind.DRAIN, advice_id="a", attempt=KEY, node=node, text='x"y\n\x1b[1m' + "z" * 10_000)
    (args,) = commands_of(step)
    assert args[:4] == ("scontrol", "update", "NodeName=gpu-001", "State=DRAIN")
    assert args[4].startswith("Reason=recovery: xy [1mz") and len(args[4]) < 450
