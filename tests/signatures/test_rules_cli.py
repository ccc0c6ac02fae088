"""The commands of `recovery rules`, as a rule writer uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribution.cli.rules import app
from attribution.model import RuleError
from attribution.resources import rules_dir
from tests.signatures.conftest import Folder

LINE = "[rank3]: acme-feeder: shard 17 of /data/tokens is gone (peer 10.0.3.7)"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = Folder(tmp_path / "rules").rule()
    base.add("taxonomy.yaml", (rules_dir() / "taxonomy.yaml").read_text())
    monkeypatch.setattr("attribution.cli.rules._folders", lambda overlays: [base.path, *(overlays or [])])
    runner = CliRunner()
    return lambda *args: runner.invoke(app, [str(a) for a in args])


@pytest.fixture
def site(run, tmp_path: Path) -> Path:  # type: ignore[no-untyped-def]
    """An overlay with one rule, drafted from a line."""
    folder = tmp_path / "site-rules"
    result = run("new", "acme.feeder.shard_lost", "--line", LINE, "--class", "data.missing", "--into", folder)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == f"{folder}/signatures/acme/feeder.yaml:2"
    return folder


def test_a_drafted_rule_proves_itself(run, site: Path) -> None:  # type: ignore[no-untyped-def]
    assert run("test", "acme", "--rules", site).exit_code == 0
    result = run("list", "--line", LINE, "--rules", site, "--format", "json")
    assert json.loads(result.stdout)[0]["id"] == "acme.feeder.shard_lost"


def test_an_id_is_not_given_twice(run, site: Path) -> None:  # type: ignore[no-untyped-def]
    result = run("new", "acme.feeder.shard_lost", "--line", LINE, "--into", site)
    assert isinstance(result.exception, RuleError)
    assert "exists" in str(result.exception)


@pytest.mark.parametrize(
    ("output", "needle"),
    [
        ("rich", "acme.yaml:9: R010 positive-missed: acme.feeder.shard_lost: not recognised"),
        ("github", "::error file="),
    ],
)
def test_check_names_file_line_and_code(run, site: Path, output: str, needle: str) -> None:  # type: ignore[no-untyped-def]
    file = site / "signatures" / "acme" / "acme.yaml"
    (site / "signatures" / "acme" / "feeder.yaml").unlink()
    file.write_text(
        "signatures:\n  - id: acme.feeder.shard_lost\n    title: t\n    class: data.missing\n    role: root\n"
        "    match:\n      any: ['feeder: shard']\n    examples:\n      - text: 'nothing of the kind'\n"
        "    counterexamples: [{text: x}]\n"
    )
    result = run("check", "--rules", site, "--id", "acme", "--format", output)
    assert result.exit_code == 1
    assert needle in result.stdout


def test_sarif_and_json_are_documents(run, site: Path) -> None:  # type: ignore[no-untyped-def]
    path = site / "signatures" / "acme" / "feeder.yaml"
    path.write_text(
        path.read_text().replace("counterexamples:\n      - text: 'a line that looks alike and is not meant'\n", "")
    )
    sarif = json.loads(run("check", "--rules", site, "--id", "acme", "--format", "sarif").stdout)
    (result,) = sarif["runs"][0]["results"]
    assert result["ruleId"] == "R019"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    plain = json.loads(run("check", "--rules", site, "--id", "acme", "--format", "json").stdout)
    assert [f["slug"] for f in plain["findings"]] == ["no-counterexample"]


def test_a_broken_overlay_is_reported_not_thrown(run, site: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (site / "broken.yaml").write_text("signatures:\n  - {id: acme.feeder.other, role: culprit}\n")
    result = run("check", "--rules", site, "--id", "acme.feeder.other")
    assert result.exit_code == 1
    assert "R001 schema" in result.stdout
    assert run("check", "--rules", tmp_path / "nowhere").exit_code == 2


def test_unknown_ids_are_said(run) -> None:  # type: ignore[no-untyped-def]
    assert run("test", "no.such.rule").exit_code == 2


def test_pages_are_written_and_checked(run, site: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pages = tmp_path / "pages"
    assert run("docs", "--rules", site, "--into", pages, "--check").exit_code == 1
    assert run("docs", "--rules", site, "--into", pages).exit_code == 0
    assert run("docs", "--rules", site, "--into", pages, "--check").exit_code == 0
    assert "acme.feeder.shard\\_lost" in (pages / "classes.md").read_text()


def test_classes_are_listed(run) -> None:  # type: ignore[no-untyped-def]
    assert "gpu_hw.off_bus" in run("list", "--classes").stdout
