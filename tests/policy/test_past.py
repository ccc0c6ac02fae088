"""What was before, and what became of it, from stored rows."""

from __future__ import annotations

from typing import Any

import pytest

from attribution.model import Outcome
from attribution.policy.past import Became, chains, histories, history_of, records, successors
from tests.policy.make import frame, row


def became(first: dict[str, Any], second: dict[str, Any]) -> Became:
    return successors(frame(first, second))[first["attempt_id"]].became


def test_each_attempt_sees_those_before_it_and_not_itself() -> None:
    found = histories(frame(row(2), row(0), row(1)))
    assert [len(found[f"4242@1000.{i}"].attempts) for i in range(3)] == [0, 1, 2]
    assert found["4242@1000.2"].same_root_without_progress("f1", 100) == 2
    assert len(history_of(frame(row(0), row(1))).attempts) == 2


def test_a_requeue_keeps_the_chain_though_its_submit_time_changes() -> None:
    later = row(1) | {"submit_time_s": 5000, "attempt_id": "4242@5000.1"}
    assert len(chains(records(frame(row(0), later)))) == 1


def test_a_reused_job_id_begins_a_new_chain() -> None:
    old = [row(0, name="old"), row(1, name="old")]
    new = row(0, name="new") | {"submit_time_s": 9_000_000, "attempt_id": "4242@9000000.0"}
    assert [len(c) for c in chains(records(frame(*old, new)))] == [2, 1]
    assert histories(frame(*old, new))["4242@9000000.0"].attempts == ()


def test_old_accounting_without_restart_counts_keeps_the_chain() -> None:
    later = row(0) | {"submit_time_s": 5000, "attempt_id": "4242@5000.0"}
    assert len(chains(records(frame(row(0), later)))) == 1


@pytest.mark.parametrize(
    ("now", "after", "expected"),
    [
        ({}, {"last_step": 300}, Became.PASSED_SAME_NODES),
        ({"culprit_nodes": ["gpu-002"]}, {"last_step": 300, "nodes": ["gpu-001", "gpu-003"]}, Became.PASSED_WITHOUT),
        ({}, {"last_step": 300, "nodes": ["gpu-001", "gpu-003"]}, Became.PASSED_ELSEWHERE),
        ({}, {"last_step": 100}, Became.SAME_ROOT),
        ({}, {"last_step": 100, "fingerprint": "f2"}, Became.OTHER_ROOT),
        ({"last_step": None}, {"outcome": "completed", "nodes": []}, Became.PASSED),
        ({"last_step": None}, {"fingerprint": "f2"}, Became.UNKNOWN),
        ({}, {"outcome": "cancelled", "last_step": 100}, Became.UNKNOWN),
    ],
)
def test_the_successor_labels_its_predecessor(now: dict[str, Any], after: dict[str, Any], expected: Became) -> None:
    assert became(row(0, **now), row(1, **after)) is expected


def test_the_last_attempt_has_no_label() -> None:
    assert successors(frame(row(0)))["4242@1000.0"].became is Became.NONE


def test_gpu_hours_are_hours_times_gpus() -> None:
    (record,) = records(frame(row(0)))
    assert record.gpu_hours == 16.0
    assert record.diagnosis.outcome is Outcome.FAILED
