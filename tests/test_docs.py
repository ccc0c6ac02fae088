"""The documents keep what they promise: generated pages are fresh, links hold, the tutorial runs, rules are stated."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from attribution.cli.reference import commands, main, pages
from attribution.diagnose import certainty
from attribution.model import Action, Outcome, Role, Status
from attribution.report.json import diagnosis_document
from tests.make import analyzer, results

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```+|~~~+).*?^\1`*\s*$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"<!-- run -->\n```sh\n(.*?)```", re.DOTALL)


def markdown(root: Path) -> Iterator[Path]:
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted(root.glob("*.md"))


def anchors(path: Path) -> set[str]:
    """Anchors of a page: headings as GitHub names them, and explicit ones."""
    text = path.read_text()
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for title in re.findall(r"^#+ +(.+?)\s*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\\(?=.)|\[([^\]]*)\]\([^)]*\)", r"\1", title)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def test_generated_pages_are_fresh(root: Path) -> None:
    folder = root / "docs" / "reference"
    old = [name for name, text in pages().items() if (folder / name).read_text() != text]
    assert not old, f"run make docs: {old}"


def test_the_generator_writes_checks_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert not list(tmp_path.iterdir())
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "cli.md").write_text("old")
    capsys.readouterr()
    assert main([str(tmp_path), "--check"]) == 1
    assert "cli.md: is old" in capsys.readouterr().err


def test_every_command_and_option_is_on_the_page(root: Path) -> None:
    text = (root / "docs/reference/cli.md").read_text()
    for name, command in commands():
        assert f"\n## {name}\n" in text
        section = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        assert command.help, f"{name} says nothing of itself"
        for p in command.params:
            if p.param_type_name == "option" and p.name != "help":
                assert all(f"`{o}`" in section for o in (*p.opts, *p.secondary_opts)), f"{name} {p.name}"
                assert p.help, f"{name} {p.name} has no help"


def test_every_class_is_on_the_page(root: Path) -> None:
    text = (root / "docs/reference/classes.md").read_text()
    missing = [c for c in analyzer().ruleset.taxonomy if f"| `{c}` |" not in text]
    assert not missing


def test_every_exit_code_is_on_the_page(root: Path) -> None:
    used = {0}
    for path in sorted((root / "attribution" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Exit", "sys.exit") and node.args:
                used |= {
                    c.value for c in ast.walk(node.args[0]) if isinstance(c, ast.Constant) and isinstance(c.value, int)
                }
    told = {
        int(n) for n in re.findall(r"^\| `(\d+)` \|", (root / "docs/reference/exit-codes.md").read_text(), re.MULTILINE)
    }
    assert told == used


def test_links_inside_the_documents_hold(root: Path) -> None:
    broken = []
    for page in markdown(root):
        for target, anchor in _LINK.findall(_FENCE.sub("", page.read_text())):
            path = (page.parent / target).resolve() if target else page
            if not path.exists():
                broken.append(f"{page.relative_to(root)}: {target}")
            elif anchor and path.suffix == ".md" and anchor[1:] not in anchors(path):
                broken.append(f"{page.relative_to(root)}: {target}{anchor}")
    assert not broken, "\n".join(broken)


def test_every_page_is_reached_from_the_index(root: Path) -> None:
    seen: set[Path] = set()
    todo = [root / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        links = (page.parent / t for t, _ in _LINK.findall(page.read_text()) if t.endswith(".md"))
        todo += [p.resolve() for p in links if p.exists()]
    left = [str(p.relative_to(root)) for p in sorted((root / "docs").rglob("*.md")) if p.resolve() not in seen]
    assert not left


def test_every_page_of_the_site_is_there(root: Path) -> None:
    named = re.findall(r"[\w./-]+\.md\b", (root / "mkdocs.yml").read_text())
    assert named
    assert not [n for n in named if not (root / "docs" / n).is_file()]


def test_certainty_states_the_numbers_in_force(root: Path) -> None:
    text = (root / "docs/explanation/certainty.md").read_text()
    for status, value in certainty.CONFIDENCE.items():
        assert re.search(rf"^\| {status} \| {value:.2f} \|$", text, re.MULTILINE), status
    assert f"specificity {certainty.PRECISE} or more" in text
    completed = certainty.confidence_of(Status.ESTABLISHED, Outcome.COMPLETED)
    assert f"| established, and the run completed | {completed:.2f} |" in text
    for told in (line.split()[0] for line in (certainty.__doc__ or "").splitlines() if line[:1].islower()):
        assert told in text


@pytest.mark.parametrize("words", [Action, Outcome, Role, Status])
def test_the_glossary_knows_every_word_of_the_closed_sets(root: Path, words: type[Action]) -> None:
    text = (root / "docs/explanation/glossary.md").read_text().replace("\\", "")
    assert not [str(w) for w in words if str(w) not in text]


def test_documents_fit_their_published_schema(root: Path, samples: Path) -> None:
    schema = json.loads((root / "docs/reference/diagnosis.schema.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    for path in sorted(p for p in samples.iterdir() if p.name not in ("healthy", "README.md", "labels.jsonl")):
        for r in results(path):
            check.validate(json.loads(json.dumps(diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice))))
            bare = json.loads(json.dumps(diagnosis_document(r.evidence.attempt, r.diagnosis)))
            check.validate(bare)
            with pytest.raises(jsonschema.ValidationError):
                check.validate({**bare, "outcome": "perhaps"})


def test_the_tutorial_runs_as_it_stands(root: Path, tmp_path: Path) -> None:
    text = (root / "docs/tutorial/first-diagnosis.md").read_text()
    blocks = _RUN.findall(text)
    assert len(blocks) >= 5
    (tmp_path / "data").mkdir()
    shutil.copytree(root / "data" / "samples", tmp_path / "data" / "samples")
    (tmp_path / "recovery").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "from attribution.cli import main; main()" "$@"\n'
    )
    (tmp_path / "recovery").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    env.pop("RECOVERY_STORE", None)
    script = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "user_code.dtype_or_device_mismatch" in done.stdout
    assert not (tmp_path / "tutorial-store").exists()
