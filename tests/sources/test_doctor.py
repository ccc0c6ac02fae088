"""The survey of logs and of the installation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from attribution.cli.doctor import doctor
from attribution.sources import survey as survey_module
from attribution.sources.survey import check_installation, survey

LOG = (
    "SLURM_JOB_ID=4242\nSLURM_JOB_NODELIST=gpu-[1-2]\n"
    + "".join(f"0: [rank0]: 2025-06-14 03:21:{i:02d} step {i}\n" for i in range(50))
    + "0: [rank0]: ValueError: bad\n"
)


def test_a_log_is_described(tmp_path: Path) -> None:
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (file,) = survey([str(tmp_path)]).files
    assert file.identity == "job 4242 (content), 2 nodes"
    assert (file.compression, file.lines, file.bytes_read) == ("gz", 53, len(LOG))
    assert file.prefixes == ("srun -l + [rankN]: + time",)
    assert file.time == "2025-06-14 03:21:00 to 2025-06-14 03:21:49"
    assert file.unknown == ()


def test_what_is_not_recognised_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("hello\nworld\n")
    (tmp_path / "k.log").write_text("[   12.000000] NVRM: loading\n")
    (tmp_path / "s.txt").write_text("JobID State\n")
    found = survey(
        [str(tmp_path / "x.log")], kernel_logs=[str(tmp_path / "k.log")], accounting=[str(tmp_path / "s.txt")]
    )
    assert [f.unknown for f in found.files] == [("no time stamps",), ("no time stamps", "no node"), ()]
    assert "sacct" in found.files[2].problems[0]


def test_the_installation_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(c.good for c in check_installation())
    monkeypatch.setattr(
        survey_module.metadata,
        "packages_distributions",
        lambda: {"attribution": ["attribution", "recovery-attribution"]},
    )
    (clash,) = [c for c in check_installation() if not c.good]
    assert clash.mend == "pip uninstall attribution: it installs a package of the same name"


def test_command(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(doctor)
    (tmp_path / "x.log").write_text(LOG)
    runner = CliRunner()
    done = runner.invoke(app, [str(tmp_path), "--format", "json"])
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["schema"] == "recovery.doctor/1"
    assert document["files"][0]["identity"].startswith("job 4242")
    shown = runner.invoke(app, [str(tmp_path / "x.log"), str(tmp_path / "gone")])
    assert shown.exit_code == 1
    assert "srun -l" in shown.stdout
    assert "No such file" in shown.stdout
