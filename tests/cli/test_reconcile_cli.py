"""`recovery reconcile` on captured answers of Slurm: a folder of programs that print them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
import typer
from typer.testing import CliRunner

from attribution.cli import reconcile as commands
from attribution.model import Action, Advice, AttemptKey, Status, to_plain
from attribution.reconcile import Event, read_ledger

CAPTURES = Path(__file__).resolve().parents[1] / "schedulers" / "captures"

app = typer.Typer()
app.command("reconcile")(commands.reconcile)
app.command("undrain")(commands.undrain)


@pytest.fixture
def slurm_bin(tmp_path: Path) -> Path:
    """Programs of a Slurm 22.05 that answer from captures; whatever else is asked goes into `calls`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    bodies = {
        "scontrol": "echo \"scontrol: unrecognized option '--json'\" >&2; exit 1",
        "squeue": f"exec cat {CAPTURES}/slurm-22.05.8-squeue.json",
        "sinfo": f"exec cat {CAPTURES}/slurm-22.05.8-sinfo.json",
    }
    for name, body in bodies.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n{body}\n')
        path.chmod(0o755)
    return folder


@pytest.fixture
def advice(tmp_path: Path) -> Path:
    """Advice about job 86 of the capture, which failed on gpu-001."""
    key = AttemptKey(job_id="86", cluster="lab", submit_time_s=1796101952)
    one = Advice(
        id="adv-86", attempt=key, action=Action.RESTART, issued_at_s=time.time(), status=Status.SUPPORTED, reason="x"
    )
    path = tmp_path / "advice.jsonl"
    path.write_bytes(orjson.dumps(to_plain(one)) + b"\n")
    return path


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in args])
    return result.exit_code, result.output


def test_observe_is_the_default_and_tells_every_command(tmp_path: Path, slurm_bin: Path, advice: Path) -> None:
    store = tmp_path / "store"
    code, out = run(
        "reconcile", "--once", "--any-job", "--advice", advice, "--store", store, "--slurm-bin", slurm_bin,
        "--metrics", tmp_path / "m.prom",
    )  # fmt: skip
    assert code == 0, out
    for text in ("SLURM_REQUEUE_HOLD  would", "scontrol requeuehold 86", "scontrol release 86"):
        assert text in out
    assert all(e.event is Event.WOULD for e in read_ledger(store / "ledger"))
    asked = (tmp_path / "calls").read_text().splitlines()
    assert asked == ["scontrol --json show jobs", "squeue --json", "sinfo --json"]
    assert 'recovery_scheduler_calls_total{program="squeue"} 1' in (tmp_path / "m.prom").read_text()


def test_jobs_that_did_not_opt_in_are_left_alone(tmp_path: Path, slurm_bin: Path, advice: Path) -> None:
    code, out = run("reconcile", "--once", "--advice", advice, "--store", tmp_path / "s", "--slurm-bin", slurm_bin)
    assert code == 0 and "NOT_OPTED_IN" in out


def test_machines_read_json_lines(tmp_path: Path, slurm_bin: Path, advice: Path) -> None:
    code, out = run(
        "reconcile", "--once", "--any-job", "-f", "jsonl", "--advice", advice, "--store", tmp_path / "s",
        "--slurm-bin", slurm_bin,
    )  # fmt: skip
    rows = [orjson.loads(line) for line in out.splitlines()]
    assert code == 0 and rows[1]["commands"] == [["scontrol", "requeuehold", "86"]] and rows[1]["reply"] is None


def test_act_mode_wants_to_be_told_where(tmp_path: Path) -> None:
    code, out = run("reconcile", "--mode", "act", "--once", "--store", tmp_path / "s")
    assert code == 2 and "--partition" in out
    code, out = run("reconcile", "--mode", "play", "--once", "--store", tmp_path / "s")
    assert code == 2 and "observe or act" in out


def test_a_document_that_is_no_advice_is_told_with_its_line(tmp_path: Path, slurm_bin: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"id": 1}\n')
    result = CliRunner().invoke(
        app,
        ["reconcile", "--once", "--advice", str(path), "--store", str(tmp_path / "s"), "--slurm-bin", str(slurm_bin)],
    )
    assert result.exit_code == 1 and "a.jsonl:2" in str(result.exception)


def test_an_unreachable_slurm_is_a_wait(tmp_path: Path, advice: Path) -> None:
    for name in ("scontrol", "squeue", "sinfo"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n")
        path.chmod(0o755)
    code, out = run(
        "reconcile",
        "--once",
        "--any-job",
        "--advice",
        advice,
        "--store",
        tmp_path / "s",
        "--slurm-bin",
        tmp_path / "bin",
    )
    assert code == 0 and "VIEW_INCOMPLETE" in out and "Unable to contact" in out


def test_missing_programs_are_told(tmp_path: Path, advice: Path) -> None:
    code, out = run(
        "reconcile",
        "--once",
        "--any-job",
        "--advice",
        advice,
        "--store",
        tmp_path / "s",
        "--slurm-bin",
        tmp_path / "none",
    )
    assert code == 0 and "cannot start" in out


def test_undrain_of_a_strange_name(tmp_path: Path, slurm_bin: Path) -> None:
    code, out = run("undrain", "gpu-[001-004]", "--store", tmp_path / "s", "--slurm-bin", slurm_bin)
    assert code == 1 and "no such node" in out
    assert not (tmp_path / "calls").exists(), "nothing was even asked"


def test_a_signal_ends_it_soon_and_in_order(tmp_path: Path, slurm_bin: Path, advice: Path) -> None:
    args = ("reconcile", "--any-job", "--interval", "60", "--advice", str(advice), "--store", str(tmp_path / "s"))
    code = "import sys; from attribution.cli import main; sys.argv = ['recovery', *sys.argv[1:]]; main()"
    program = [sys.executable, "-c", code, *args, "--slurm-bin", str(slurm_bin), "--metrics", str(tmp_path / "m")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        end = time.monotonic() + 20
        while not (tmp_path / "m").exists() and time.monotonic() < end:
            time.sleep(0.05)
        child.terminate()
        out, _ = child.communicate(timeout=5)
    assert child.returncode == 0 and "SLURM_REQUEUE_HOLD  would" in out
    assert list(read_ledger(tmp_path / "s" / "ledger"))
