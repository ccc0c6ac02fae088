"""House style that a machine can hold."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

MOST_FILE_LINES = 500
MOST_FUNCTION_LINES = 70
#: Nothing committed may name a package host or the path of somebody's machine.
FORBIDDEN = re.compile(
    r"pyp" r"i\.org|pythonhos" r"ted|deb\.deb" r"ian|registry\.np" r"mjs|/wo" r"rk/(?:main|shared|\.library)"
)


def tracked(root: Path, *suffixes: str) -> list[Path]:
    """Files that git tracks, or would track."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [root / f for f in out if f and (not suffixes or f.endswith(suffixes)) and (root / f).is_file()]


def test_files_stay_short(root: Path) -> None:
    long = {
        f"{p.relative_to(root)}": n
        for p in tracked(root, ".py")
        if (n := len(p.read_text().splitlines())) > MOST_FILE_LINES
    }
    assert not long, f"over {MOST_FILE_LINES} lines, each wants to be two: {long}"


def test_functions_stay_short(root: Path) -> None:
    long = []
    for p in tracked(root, ".py"):
        for node in ast.walk(ast.parse(p.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                n = (node.end_lineno or node.lineno) - node.lineno + 1
                if n > MOST_FUNCTION_LINES:
                    long.append(f"{p.relative_to(root)}:{node.lineno} {node.name} {n}")
    assert not long, f"over {MOST_FUNCTION_LINES} lines: {long}"


def test_no_host_or_machine_path_is_committed(root: Path) -> None:
    bad = []
    for p in tracked(root):
        try:
            text = p.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        bad += [f"{p.relative_to(root)}: {m.group()}" for m in FORBIDDEN.finditer(text)]
    assert not bad


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc"])
def test_no_module_without_a_subject(root: Path, name: str) -> None:
    assert not list((root / "attribution").rglob(f"{name}.py"))
