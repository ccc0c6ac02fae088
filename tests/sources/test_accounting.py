"""Accounting exports of two Slurm versions, as captured from real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.model import SourceError
from attribution.sources.accounting import AccountingRecord, parse_accounting

CAPTURES = Path(__file__).parent / "captures"


def load(name: str) -> tuple[AccountingRecord, ...]:
    return parse_accounting((CAPTURES / name).read_bytes(), name=name)


def test_json_of_22_05_has_no_exit_codes_worth_believing() -> None:
    records = load("sacct-22.05.8-D.json")
    assert [(r.job_id, r.restart, r.state) for r in records] == [
        ("36", 0, "REQUEUED"),
        ("36", 1, "REQUEUED"),
        ("36", 2, "CANCELLED"),
        ("33", 0, "REQUEUED"),
        ("33", 1, "COMPLETED"),
        ("15", 0, "PREEMPTED"),
        ("15", 1, "CANCELLED"),
    ]
    first = records[0]
    assert (first.cluster, first.user, first.partition, first.name) == ("lab", "alice", "main", "train")
    assert first.nodes == ("gpu-001", "gpu-002")
    assert (first.submit_s, first.start_s, first.end_s) == (1796101399.0, 1796101399.0, 1796101403.0)
    assert (first.time_limit_s, first.elapsed_s) == (3600, 4)
    assert first.comment == '{"run":"r1"}'
    assert (first.exit_code, first.derived_signal) == (None, 15)
    assert [(s.id, s.state, s.exit_code, s.signal) for s in first.steps] == [
        ("batch", "FAILED", None, None),
        ("task.sh", "CANCELLED", None, 15),
    ]
    assert records[4].exit_code == 0


def test_json_of_24_11_tells_codes_restarts_and_the_log() -> None:
    first, second = load("sacct-24.11.5-D.json")
    # The requeue rewrote the first attempt's state; its exit code stayed.
    assert (first.state, first.exit_code, first.exit_signal, first.restart) == ("REQUEUED", 143, None, 0)
    assert (second.state, second.restart, second.nodes) == ("FAILED", 1, ("gpu-003", "gpu-004"))
    assert second.output == "/lab/jobs/train-1.out"
    assert [(s.id, s.exit_code, s.signal) for s in second.steps] == [("1.batch", 143, None), ("1.0", None, 15)]


def test_text_folds_exit_codes() -> None:
    first, second = load("sacct-24.11.5-DXP.txt")
    assert (first.restart, second.restart) == (0, 1)
    # 143 reads 15 here, so the code is not exact.
    assert (first.exit_code, first.exit_code_exact, first.derived_signal) == (15, False, 15)
    assert first.submit_s == 1796103071.0
    assert second.nodes == ("gpu-003", "gpu-004")


def test_text_with_steps_bars_in_comments_and_odd_values() -> None:
    text = (
        "JobID|JobName|State|ExitCode|Comment|Timelimit|Elapsed|NodeList|AllocTRES|\n"
        '7_3|train|CANCELLED by 1001|0:0|{"a": "x|y"}|1-02:00:00|00:01:05|gpu-[1-2]|cpu=4,gres/gpu=16|\n'
        "7_3.batch|batch|CANCELLED|0:15|||00:01:05|gpu-1||\n"
        "second line of a comment|\n"
        "8|x|PENDING|0:0||UNLIMITED|00:00:00|None assigned||\n"
    )
    job, waiting = parse_accounting(text.encode(), name="s")
    assert (job.job_id, job.state, job.cancelled_by, job.comment) == ("7_3", "CANCELLED", "1001", '{"a": "x|y"}')
    assert (job.time_limit_s, job.elapsed_s, job.gpus, job.nodes) == (93600, 65, 16, ("gpu-1", "gpu-2"))
    assert [(s.id, s.signal) for s in job.steps] == [("7_3.batch", 15)]
    assert (waiting.nodes, waiting.time_limit_s, waiting.restart) == ((), None, None)


def test_a_reused_job_id_is_another_job() -> None:
    text = "JobID|User|JobName|Submit\n5|bob|b|2025-02-01T00:00:00\n5|alice|a|2025-01-01T00:00:00\n"
    assert [(r.user, r.restart) for r in parse_accounting(text.encode(), name="s")] == [("alice", 0), ("bob", 0)]


@pytest.mark.parametrize("data", [b"", b"{", b'{"jobs": 3}', b"[]", b"JobID  State\n1 FAILED\n", b"\xff\xfe"])
def test_what_is_no_export_is_refused_with_the_way_to_make_one(data: bytes) -> None:
    with pytest.raises(SourceError, match="sacct"):
        parse_accounting(data, name="x")


@given(st.binary(max_size=200))
def test_any_bytes_behind_a_header_are_read(data: bytes) -> None:
    parse_accounting(b"JobID|State|ExitCode|NodeList|Submit|Timelimit\n1|" + data, name="x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["set", "number", "id", "current"]), inner)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["time", "state", "array", "exit_code", "steps", "tres", "nodes", "comment", "association"]),
        JSON,
    )
)
def test_any_values_in_json_are_read(row: dict[str, object]) -> None:
    import json

    try:
        parse_accounting(json.dumps({"jobs": [{"job_id": 1, **row}]}).encode(), name="x")
    except SourceError as error:
        assert "x" in str(error)
