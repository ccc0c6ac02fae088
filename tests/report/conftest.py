"""A store of a few real logs, one of them hostile, and a Chromium that is installed where it may be."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribution.cli.app import app

#: A log whose author would like to take over the page, its reader's terminal and his secrets.
HOSTILE = "\n".join(
    (
        "rank0: <script>alert(1)</script>",
        "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789",
        "Traceback (most recent call last):",
        '  File "/home/user/<img src=x onerror=alert(2)>.py", line 1, in <module>',
        "ModuleNotFoundError: No module named '\"><svg onload=alert(3)>' key=sk-abcdefghijklmnopqrstuvwxyz123456 \x07\x1b]0;x\x07",
        "",
    )
)
NAME = "a'\"><b onmouseover=alert(4)>&.log"


@pytest.fixture(scope="session")
def store(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a store: the samples and the hostile log."""
    folder = tmp_path_factory.mktemp("report")
    (folder / NAME).write_text(HOSTILE)
    inside = folder / "store"
    result = CliRunner().invoke(
        app, ["analyze", str(samples), str(folder / NAME), "--store", str(inside), "-f", "jsonl"]
    )
    assert result.exit_code == 0, result.output
    return inside


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium; installed where this is Debian or Ubuntu and the user is root, else the test is skipped."""
    if _chromium() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
            subprocess.run(["apt-get", "-qq", *command], env=env, capture_output=True, timeout=400, check=False)
    found = _chromium()
    if found is None:
        pytest.skip("no Chromium, and none could be installed")
    return found
