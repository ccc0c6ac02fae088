from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from attribution.cli.app import app as cli
from attribution.serve.app import create_app
from attribution.serve.query import CHOICES

HOSTILE = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nModuleNotFoundError: No module named \'"><script>alert(1)</script>\'\n'


@pytest.fixture(scope="module")
def store(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "a'\"><b>&.log").write_text(HOSTILE)
    done = CliRunner().invoke(
        cli,
        [
            "analyze",
            str(samples / "slurm-oom-killed.log"),
            str(samples / "healthy"),
            str(folder / "a'\"><b>&.log"),
            "--store",
            str(folder / "store"),
            "-f",
            "jsonl",
        ],
    )
    assert done.exit_code == 0, done.output
    return folder / "store"


@pytest.fixture(scope="module")
def client(store: Path) -> TestClient:
    return TestClient(create_app(store), raise_server_exceptions=True)


def test_the_list_leads_to_every_attempt_and_log_text_stays_text(client):
    page = client.get("/").text
    assert "<script" not in page and "alert(1)" in page
    for row in client.get("/api/attempts").json()["attempts"]:
        shown = client.get("/attempts/" + row["attempt_id"])
        assert shown.status_code == 200
        assert "<script" not in shown.text
        assert client.get("/api/attempts/" + row["attempt_id"]).json()["outcome"] == row["outcome"]


def test_filters_and_search_narrow(client):
    all_ = client.get("/api/attempts").json()
    failed = client.get("/api/attempts?outcome=failed").json()
    assert 0 < failed["total"] < all_["total"]
    assert {r["outcome"] for r in failed["attempts"]} == {"failed"}
    assert client.get("/api/attempts?q=OOM").json()["total"] >= 1
    one = client.get("/api/attempts?limit=1&offset=1").json()
    assert one["total"] == all_["total"] and one["attempts"] == all_["attempts"][1:2]
    assert 'rel="next"' in client.get("/?limit=1").text


@pytest.mark.parametrize(
    "path", ["/", "/report", "/metrics", "/healthz", "/api/overview", "/api/openapi.json", "/style.css"]
)
def test_every_answer_forbids_script_and_framing(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("query", ["outcome=x", "limit=0", "limit=1e3", "offset=-1", "q=" + "a" * 201, "limit=%D9%A3"])
def test_wrong_questions_are_refused_in_words(client, query):
    answer = client.get("/api/attempts?" + query)
    assert answer.status_code == 400
    assert answer.json()["where"] in query


def test_nothing_can_be_written(client):
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)("/api/attempts").status_code == 405
    assert client.get("/api/attempts/none-such").status_code == 404


def test_a_token_is_asked_for_and_other_names_are_not_served(store):
    locked = TestClient(create_app(store, token="s3cret"))
    assert locked.get("/api/overview").status_code == 401
    assert locked.get("/api/overview", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert locked.get("/", auth=("any", "s3cret")).status_code == 200
    assert locked.get("/", headers={"Authorization": "Basic !!"}).status_code == 401
    assert (
        TestClient(create_app(store, hosts=("localhost",)), base_url="http://evil.example").get("/").status_code == 421
    )


@given(st.dictionaries(st.sampled_from(["q", "limit", "offset", "refresh", *CHOICES]), st.text(max_size=30)))
def test_no_question_makes_it_stumble(client, given_):
    for path in ("/", "/api/attempts"):
        assert client.get(path, params=given_).status_code in (200, 400)


def test_logs_of_one_name_in_two_folders_are_listed_once(samples, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.log").write_bytes((samples / "slurm-oom-killed.log").read_bytes())
    done = CliRunner().invoke(
        cli,
        [
            "analyze",
            "--each",
            str(tmp_path / "a" / "train.log"),
            str(tmp_path / "b" / "train.log"),
            "--store",
            str(tmp_path / "s"),
            "-f",
            "jsonl",
        ],
    )
    assert done.exit_code == 0, done.output
    found = TestClient(create_app(tmp_path / "s")).get("/api/attempts").json()
    ids = [r["attempt_id"] for r in found["attempts"]]
    assert len(ids) == len(set(ids)) == found["total"]
