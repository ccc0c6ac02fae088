"""Scoring: what counts as right, and that the figures are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution.evaluate import (
    as_plain,
    belongs,
    evaluate,
    expected_calibration_error,
    read_jsonl,
    reliability,
    wilson,
)
from attribution.model import SourceError

LABEL = {
    "id": "A1", "path": "A/1.log", "source": "s", "outcome": "failed", "outcome_ok": ["failed"], "class": "gpu_hw.off_bus",
    "class_ok": ["gpu_hw.off_bus"], "root_lines": [10], "culprit_ranks": None, "culprit_nodes": ["gpu-1"], "action_ok": ["restart_excluding"],
}  # fmt: skip


def document(**more: object) -> dict[str, object]:
    return {
        "attempt": {"files": ["/x/A/1.log"]}, "outcome": "failed", "class": "gpu_hw.off_bus", "status": "established", "confidence": 0.9,
        "root": {"path": "/x/A/1.log", "line": 12}, "culprit": {"node": "gpu-1.cluster", "rank": None}, "advice": {"action": "restart_excluding"}, **more,
    }  # fmt: skip


def test_two_lines_beside_the_root_and_a_full_host_name_are_right() -> None:
    score = evaluate([LABEL], [document()])
    assert not score.misses
    assert score.hit["root"] == score.hit["node_precision"] == 1


def test_a_hold_where_the_label_says_restart_is_a_wrong_stop() -> None:
    score = evaluate([LABEL], [document(advice={"action": "hold"})])
    assert {m.field for m in score.misses} == {"action", "wrong_stop"}


def test_a_case_without_an_answer_is_counted() -> None:
    score = evaluate([LABEL], [])
    assert score.unanswered == 1 and score.hit["class"] == 0


def test_folders_and_files_find_their_documents() -> None:
    assert belongs("Z/031", "/corpus/Z/031/gpu-001.log")
    assert belongs("Z/031.log", "/corpus/Z/031.log")
    assert not belongs("Z/031.log", "/corpus/Z/1031.log")


def test_wilsons_interval() -> None:
    low, high = wilson(9, 10)
    assert (round(low, 3), round(high, 3)) == (0.596, 0.982)
    assert wilson(0, 0) == (0.0, 1.0)


def test_reliability_compares_promise_with_outcome() -> None:
    pairs = [(0.95, True)] * 9 + [(0.95, False)]
    (only,) = reliability(pairs)
    assert (only.n, round(only.observed, 2)) == (10, 0.9)
    assert expected_calibration_error(pairs) == pytest.approx(0.05)


def test_the_plain_form_is_the_same_twice() -> None:
    assert as_plain(evaluate([LABEL], [document()])) == as_plain(evaluate([LABEL], [document()]))


def test_a_damaged_labels_file_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"a": 1}\nnonsense\n')
    with pytest.raises(SourceError, match=r"labels\.jsonl:2"):
        read_jsonl(tmp_path / "labels.jsonl")
