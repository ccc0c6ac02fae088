"""Real output of Slurm 22.05.8 and 24.11.5, read as the adapter reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution.model import SchedulerError
from attribution.schedulers.base import Hold, ReplyKind
from attribution.schedulers.runner import Answer
from attribution.schedulers.slurm import kind_of, reply_of
from attribution.schedulers.slurm_json import documents, exit_status, hold_of, job_of, node_of

CAPTURES = Path(__file__).parent / "captures"


def jobs(name: str) -> dict[str, object]:
    rows, errors = documents((CAPTURES / name).read_bytes(), "jobs")
    assert not errors
    return {job.id: job for job in map(job_of, rows)}


def test_jobs_of_22_05() -> None:
    found = jobs("slurm-22.05.8-squeue.json")
    facts = {key: (job.state, job.hold, job.restart) for key, job in found.items()}
    assert facts == {
        "81": ("CANCELLED", Hold.NONE, 12),
        "82": ("RUNNING", Hold.NONE, 0),
        "83": ("PENDING", Hold.PERSON, 0),
        "84": ("PENDING", Hold.NONE, 0),
        "85": ("PENDING", Hold.REQUEUE, 1),
        "86": ("FAILED", Hold.NONE, 0),
        "87": ("FAILED", Hold.NONE, 0),
    }
    assert found["81"].nodes == ("gpu-001", "gpu-002")
    assert found["81"].exit_code == 143, "raw 15 is signal 15"
    assert found["84"].array_pending == "1-3" and found["84"].array_task is None
    assert found["82"].user == "alice" and found["82"].cluster == "lab" and found["82"].requeue is True
    assert found["81"].comment == "{run_id:r-42,attempt:1}", "sbatch ate the quotes: not JSON any more"
    assert found["82"].submit_time_s == 1796101949


def test_jobs_of_24_11() -> None:
    (job,) = jobs("slurm-24.11.5-scontrol-show-job.json").values()
    assert (job.id, job.state, job.restart, job.exit_code) == ("1", "FAILED", 1, 143)
    assert job.nodes == ("gpu-003", "gpu-004") and job.excluded == ("gpu-002",)
    assert job.array_id is None and job.het_leader is None and job.hold is Hold.NONE
    assert not jobs("slurm-24.11.5-squeue-after-the-end.json"), "squeue of 24.11 leaves ended jobs out"


def test_nodes_of_both() -> None:
    rows, _ = documents((CAPTURES / "slurm-22.05.8-sinfo.json").read_bytes(), "nodes")
    nodes = {node.name: node for node in map(node_of, rows)}
    assert sorted(nodes) == [f"gpu-{n:03d}" for n in range(1, len(nodes) + 1)]
    assert nodes["gpu-001"].state == "MIXED" and nodes["gpu-001"].partitions == ("main", "low", "high")
    rows, _ = documents((CAPTURES / "slurm-24.11.5-scontrol-show-node.json").read_bytes(), "nodes")
    (node,) = map(node_of, rows)
    assert (node.name, node.state, node.drained) == ("gpu-002", "IDLE", False)


def test_every_answer_of_the_error_capture_is_understood() -> None:
    text = (CAPTURES / "slurm-22.05.8-requeue-errors.txt").read_text()
    words = set(re.findall(r"^(?:slurm_\w+ error: )?([A-Z][^\n]*?) for job \d+$", text, re.MULTILINE))
    assert words >= {"Job is pending execution", "Access/permission denied", "Invalid job id specified"}
    unknown = {w for w in words if kind_of(w) is ReplyKind.UNKNOWN}
    assert not unknown


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ("", 0, ReplyKind.ACCEPTED),
        ("Job is pending execution for job 85", 1, ReplyKind.ALREADY),
        ("Requested operation is presently disabled for job 39", 1, ReplyKind.DISABLED),
        ("Unexpected message received for job 6", 1, ReplyKind.UNKNOWN),
        ("Zero Bytes were transmitted or received", 1, ReplyKind.UNKNOWN),
        ("Access/permission denied for job 57\nslurm_suspend error: Access/permission denied", 1, ReplyKind.DENIED),
        ("scancel: error: Kill job error on job id 9: Access/permission denied", 210, ReplyKind.DENIED),
        ("something of tomorrow", 1, ReplyKind.UNKNOWN),
        ("Job is pending execution", None, ReplyKind.UNKNOWN),
    ],
)
def test_what_an_answer_means(words: str, code: int | None, kind: ReplyKind) -> None:
    assert reply_of(Answer(returncode=code, stdout=b"", stderr=words, seconds=0.1)).kind is kind


@pytest.mark.parametrize(
    ("reason", "description", "priority", "hold"),
    [
        ("JobHeldUser", "job requeued in held state", 0, Hold.REQUEUE),
        ("job_requeued_in_held_state", "", 0, Hold.REQUEUE),
        ("JobHeldAdmin", "job requeued in held state", 0, Hold.PERSON),
        ("JobHeldUser", "launch failed requeued held", 0, Hold.SYSTEM),
        ("JobHeldUser", "", 0, Hold.PERSON),
        ("JobHoldMaxRequeue", "", 0, Hold.PERSON),
        ("Something", "", 0, Hold.PERSON),
        ("BeginTime", "", 4294901678, Hold.NONE),
        ("Priority", "", 1, Hold.NONE),
    ],
)
def test_who_holds_a_job(reason: str, description: str, priority: int, hold: Hold) -> None:
    assert hold_of(reason, description, priority, "PENDING") is hold


def test_exit_codes_in_their_notations() -> None:
    assert exit_status(36608) == 143  # raw wait status of 22.05
    assert exit_status(768) == 3
    assert exit_status(9) == 137
    assert exit_status({"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 143}}) == 143
    signal = {"id": {"set": True, "infinite": False, "number": 15}, "name": "TERM"}
    assert exit_status({"status": ["SIGNALED"], "return_code": {"set": False, "number": 0}, "signal": signal}) == 143
    assert exit_status(None) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"jobs": 3}', b"slurm_load_jobs error: x", b"\xff"])
def test_what_is_no_document_is_an_error_and_not_an_empty_cluster(raw: bytes) -> None:
    with pytest.raises(SchedulerError):
        documents(raw, "jobs")


@pytest.mark.parametrize("row", [{}, {"job_id": 0}, {"job_id": 1, "job_state": "RUNNING"}, {"job_id": "1"}])
def test_a_record_without_identity_is_an_error(row: dict[str, object]) -> None:
    with pytest.raises(SchedulerError):
        job_of(row)
