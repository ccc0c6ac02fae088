"""Coverage of a small catalogue: class and role decide, harmless rows must not accuse, waivers name their source."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from attribution.match import Matcher
from attribution.model import RuleError
from attribution.signatures import load
from attribution.signatures.coverage import Judged, cells, judge, read_catalog, read_waivers, target_of
from tests.signatures.conftest import Folder

ROWS = [
    ("reset", "error", "root", "peer", "[rank3]: socket.cc:12 Connection reset by peer"),
    ("reset-in-text", "error", "root", "peer", "something first\nConnection reset by peer"),
    ("other-class", "fatal", "root", "timeout", "Connection reset by peer"),
    ("unseen", "fatal", "root", "peer", "peer is gone"),
    ("benign", "warn", "noise", "benign_warning", "Connection reset by peer (ignored)"),
    ("benign-unseen", "warn", "noise", "benign_warning", "all fine"),
    ("step", "info", "progress", "progress_step", " iteration 12/ 500 | lm loss: 2.0"),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    folder = tmp_path / "catalog"
    folder.mkdir()
    (folder / "causes.yaml").write_text("peer: [comm.peer_lost]\ntimeout: [comm.collective_timeout]\n")
    rows = [
        {"id": i, "severity": s, "role": r, "cause": c, "example": e, "tier": 1, "emitter": "nccl"}
        for i, s, r, c, e in ROWS
    ]
    (folder / "nccl.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)) + b"\n")
    return folder


def judged(folder: Folder, catalog: Path, waivers: dict[str, str] | None = None) -> dict[str, Judged]:
    folder.rule()
    folder.rule(
        id="progress.megatron.iteration",
        role="progress",
        marks="[step]",
        match=r"{any: ['iteration +(?P<step>\d+)/']}",
        examples="[{text: ' iteration 3/ 9'}]",
        **{"class": ""},
    )
    rows, causes = read_catalog(catalog)
    found = judge(rows, causes, Matcher(load([folder.path])), waivers or {})
    return {j.row.id: j for j in found}


def test_what_is_covered_and_why_the_rest_is_not(folder: Folder, catalog: Path) -> None:
    found = judged(folder, catalog)
    assert {i: j.why for i, j in found.items()} == {
        "reset": "",
        "reset-in-text": "",
        "other-class": "class comm.peer_lost, not comm.collective_timeout",
        "unseen": "not recognised",
        "benign": "accuses: comm.peer_lost",
        "benign-unseen": "",
        "step": "",
    }


def test_cells_count_and_waivers_leave_rows_out(folder: Folder, catalog: Path) -> None:
    found = judged(folder, catalog, {"unseen": "printed by nobody"})
    table = {(c.tier, c.group): c for c in cells(found.values())}
    failure = table[(1, "failure")]
    assert (failure.rows, failure.covered, failure.waived, failure.target, failure.met) == (3, 2, 1, 0.99, False)
    assert table[(1, "progress")].met
    assert table[(1, "rest")].target is None


def test_targets() -> None:
    assert target_of("nccl", 2, "failure") == 0.95
    assert target_of("python", 2, "failure") == 0.90
    assert target_of("cuda", 1, "failure") == 0.99
    assert target_of("nccl", 3, "failure") is None
    assert target_of("frameworks", 2, "progress") == 0.99


def test_a_waiver_needs_reason_and_source(tmp_path: Path) -> None:
    path = tmp_path / "waivers.yaml"
    path.write_text("unseen: {reason: wrong class, source: 'nccl v2.27 src/misc/socket.cc'}\n")
    assert read_waivers(path) == {"unseen": "wrong class"}
    path.write_text("unseen: {reason: wrong class}\n")
    with pytest.raises(RuleError, match="needs a reason and a source"):
        read_waivers(path)


def test_a_folder_that_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"no causes\.yaml"):
        read_catalog(tmp_path)
