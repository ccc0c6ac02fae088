"""The command line as a person meets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECOVERY = [sys.executable, "-c", "from attribution.cli import main; main()"]


def run(*args: str, cwd: Path, data: bytes | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    out = subprocess.run([*RECOVERY, *args], cwd=cwd, input=data, capture_output=True, env=env)
    return subprocess.CompletedProcess(out.args, out.returncode, out.stdout.decode(), out.stderr.decode())


def test_a_folder_of_logs_becomes_diagnoses_and_a_store(tmp_path: Path, samples: Path) -> None:
    out = run("analyze", str(samples), "--format", "jsonl", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    documents = [json.loads(line) for line in out.stdout.splitlines()]
    assert {d["schema"] for d in documents} == {"recovery.diagnosis/1"}
    again = run("analyze", str(samples), "--format", "jsonl", cwd=tmp_path)
    assert sorted(again.stdout.splitlines()) == sorted(out.stdout.splitlines())
    asked = run("query", "select count(*) n from attempts", "--format", "json", cwd=tmp_path)
    assert json.loads(asked.stdout) == [{"n": len(documents)}]


def test_each_makes_every_path_a_job(tmp_path: Path, samples: Path) -> None:
    out = run(
        "analyze",
        "--each",
        "--no-store",
        str(samples / "nanogpt-dtype-on-second-node"),
        str(samples / "spawn-port-taken.log"),
        "-f",
        "jsonl",
        cwd=tmp_path,
    )
    assert [json.loads(line)["class"] for line in out.stdout.splitlines()] == [
        "user_code.dtype_or_device_mismatch",
        "config_env.port_in_use",
    ]
    assert not (tmp_path / "recovery-store").exists()


def test_standard_input(tmp_path: Path, samples: Path) -> None:
    out = run(
        "analyze",
        "-",
        "--no-store",
        "-f",
        "jsonl",
        cwd=tmp_path,
        data=(samples / "user-process-limit.log").read_bytes(),
    )
    assert json.loads(out.stdout)["class"] == "config_env.process_limit"


def test_the_rich_page_says_what_where_how_sure_and_what_next(tmp_path: Path, samples: Path) -> None:
    out = run("analyze", "--no-store", str(samples / "slurm-oom-killed.log"), "-f", "rich", cwd=tmp_path)
    for word in ("host_memory.oom_killed", "slurm-oom-killed.log:4", "established", "hold"):
        assert word in out.stdout
    assert "\x1b[" not in out.stdout


def test_hostile_text_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(b"KeyError: '[bold red]markup[/] \x1b]0;owned\x07 \x1b[2J'\n")
    out = run("analyze", "--no-store", "job.log", "-f", "rich", cwd=tmp_path)
    assert "\x1b" not in out.stdout and "\x07" not in out.stdout
    assert "[bold red]" in out.stdout


def test_what_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path: Path, samples: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "good.log").write_bytes((samples / "user-process-limit.log").read_bytes())
    (tmp_path / "logs" / "cut.log.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc")
    out = run("analyze", "--no-store", "logs", "-f", "jsonl", cwd=tmp_path)
    assert out.returncode == 1
    assert "cut.log.gz" in out.stderr
    assert "config_env.process_limit" in out.stdout


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("analyze", "nowhere"), 2, "nowhere"),
        (("query", "select 1"), 2, "no store"),
        (("analyze", "--format", "parquet", "."), 2, "wants a file"),
        (("analyze", "--format", "nonsense", "."), 2, "unknown format"),
        (("explain", "4242"), 2, "no store"),
    ],
)
def test_errors_say_what_and_how_to_mend_it(tmp_path: Path, args: tuple[str, ...], code: int, says: str) -> None:
    out = run(*args, cwd=tmp_path)
    assert out.returncode == code
    assert says in out.stderr
    assert "Traceback" not in out.stderr


def test_explain_shows_the_chain(tmp_path: Path, samples: Path) -> None:
    out = run("explain", str(samples / "megatron-checkpoint-missing.log"), cwd=tmp_path)
    assert "why this advice" in out.stdout and "episode 0" in out.stdout
    assert ">     73" in out.stdout


def test_parquet_csv_and_json_hold_the_same(tmp_path: Path, samples: Path) -> None:
    import polars as pl

    log = str(samples / "user-process-limit.log")
    run("analyze", "--no-store", log, "-o", "out.parquet", cwd=tmp_path)
    run("analyze", "--no-store", log, "-o", "out.csv", cwd=tmp_path)
    run("analyze", "--no-store", log, "-o", "out.json", cwd=tmp_path)
    parquet, csv = pl.read_parquet(tmp_path / "out.parquet"), pl.read_csv(tmp_path / "out.csv")
    assert (
        parquet["class"].to_list()
        == csv["class"].to_list()
        == [json.loads((tmp_path / "out.json").read_text())[0]["class"]]
    )


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['recovery', '--help']\ntry:\n    from attribution.cli import main; main()\nexcept SystemExit: pass\nprint(sorted({m.split('.')[0] for m in sys.modules} & {'polars', 'pyarrow', 'duckdb', 'sklearn', 'drain3', 'hyperscan', 'numpy'}))"
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert out.stdout.rstrip().endswith("[]"), out.stdout[-300:]


def _attempts(out: str) -> dict[str, dict[str, Any]]:
    documents = [json.loads(line) for line in out.splitlines()]
    return {d["attempt"]["id"]: d for d in documents}


def test_two_logs_that_name_one_job_are_both_shown_and_stored(tmp_path: Path, samples: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(samples / "slurm-oom-killed.log", tmp_path / name / "train.log")
    out = run("analyze", "--each", "a/train.log", "b/train.log", "-f", "jsonl", cwd=tmp_path)
    found = _attempts(out.stdout)
    assert list(found) == ["9558811.0", "9558811~2.0"]
    assert found["9558811~2.0"]["advice"]["commands"] == []
    rows = run("query", "select count(*) n from attempts join diagnoses using (attempt_id)", "-f", "json", cwd=tmp_path)
    assert json.loads(rows.stdout) == [{"n": 2}]


def test_advice_knows_the_attempts_that_the_store_holds(tmp_path: Path) -> None:
    """Three deaths of one job without a step made: whoever sees only the last one would restart for ever."""
    line = "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store"
    line += " by key '0', but store->get('0') got error: Connection reset by peer"
    actions = []
    for restart in range(4):
        env = f"SLURM_JOB_ID=4242\nSLURM_RESTART_COUNT={restart}\n"
        (tmp_path / f"try{restart}.log").write_text(f"{env}Traceback (most recent call last):\n{line}\n")
        out = run("analyze", f"try{restart}.log", "-f", "jsonl", cwd=tmp_path)
        ((name, found),) = _attempts(out.stdout).items()
        assert name == f"4242.{restart}"
        actions.append(found["advice"]["action"])
    assert actions[0] == "restart"
    assert actions[-1] == "hold"
