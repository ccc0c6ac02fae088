"""``recovery policy`` as an operator meets it."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from attribution.cli.policy import policy_app
from attribution.report.json import advice_document, diagnosis_document
from attribution.result import Result
from attribution.store import Store
from tests.make import results

BROKEN = "policy: site\nrows:\n  - {id: a, action: hold, when: {class: nowhere.*}}\n  - {id: b, action: taxonomy}\n"


def run(*args: str) -> tuple[int, str]:
    got = CliRunner().invoke(policy_app, list(args), terminal_width=200)
    if got.exception is not None and not isinstance(got.exception, SystemExit):
        raise got.exception
    return got.exit_code, got.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two real logs."""
    folder = tmp_path_factory.mktemp("store")
    samples = Path(__file__).parents[2] / "data" / "samples"
    opened = Store(folder, create=True)
    with opened.writer(rules="r", engine="e", run_id="run-1") as w:
        for name in ("jax-peer-lost.log", "deepspeed-two-nodes-cuda-oom.log"):
            found = results(samples / name)
            w.add(found, [_documents(r) for r in found], [])
        w.commit()
    return folder


def _documents(r: Result) -> tuple[str, str]:
    told = diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice)
    return orjson.dumps(told).decode(), orjson.dumps(advice_document(r.advice)).decode()


def test_check_gives_an_exit_code_for_each_case(tmp_path: Path) -> None:
    assert run("check")[0] == 0
    broken = tmp_path / "site.yaml"
    broken.write_text(BROKEN)
    code, text = run("check", str(broken))
    assert code == 1
    assert "P001 unknown-class: a:" in text and "P005 no-tests" in text
    code, text = run("check", str(broken), "--format", "json")
    assert {f["code"] for f in json.loads(text)} >= {"P001", "P005"}


def test_test_runs_the_documents_own_tests(tmp_path: Path) -> None:
    code, text = run("test")
    assert code == 0 and "0 failed" in text
    wrong = tmp_path / "site.yaml"
    wrong.write_text(
        "rows: [{id: b, action: taxonomy}]\ntests: [{name: t, given: {class: comm.peer_lost}, expect: none}]"
    )
    code, text = run("test", str(wrong))
    assert code == 1 and "FAIL t" in text and "expected none, got restart by row b" in text


def test_show_prints_rows_limits_and_the_matrix() -> None:
    assert "same_root_again: hold when" in run("show")[1]
    assert run("show", "--matrix")[1] == (Path(__file__).parent / "matrix.txt").read_text()
    cells = json.loads(run("show", "--matrix", "--format", "json")[1])
    assert {"failure_class", "status", "history", "action", "row", "weakened"} == set(cells[0])


def test_explain_takes_its_history_from_the_store(store: Path) -> None:
    (attempt,) = Store(store).sql("select attempt_id from diagnoses where class = 'gpu_memory.cuda_oom'")["attempt_id"]
    code, text = run("explain", attempt, "--store", str(store))
    assert code == 0
    assert "advice: hold" in text and "row first_occurrence decided for hold" in text
    told = json.loads(run("explain", attempt, "--store", str(store), "--format", "json")[1])
    assert told["row"] == "first_occurrence"


def test_simulate_and_lemons_read_a_store(store: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("policy: site\nrows: [{id: all, action: hold}]")
    code, text = run("simulate", "--policy", str(site), "--store", str(store))
    assert code == 0
    assert "2 failed attempts, 0 judged" in text and "1 attempts differ" in text
    assert json.loads(run("simulate", "--policy", str(site), "--store", str(store), "-f", "json")[1])["attempts"] == 2
    assert run("lemons", "--store", str(store))[0] == 0
    assert run("simulate", "--policy", str(site), "--store", str(store), "--since", "soon")[0] == 2
    (job,) = Store(store).sql(
        "select job_id from diagnoses join attempts using (attempt_id) where class = 'gpu_memory.cuda_oom'"
    )["job_id"]
    assert run("receipt", job, "--store", str(store)) == (0, "one attempt, no restart\n")
