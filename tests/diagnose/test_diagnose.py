"""Whole diagnoses of the samples, and of small stories that each teach one rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attribution.diagnose.fingerprint import entity, fingerprint
from attribution.evaluate import evaluate, read_jsonl
from attribution.model import Domain, Outcome, Status
from attribution.report.json import diagnosis_document
from tests.conftest import ROOT
from tests.make import match, results, verdict_of

LABELS = read_jsonl(ROOT / "data" / "samples" / "labels.jsonl")


@pytest.mark.parametrize("label", LABELS, ids=lambda x: x["id"])
def test_samples_yield_what_their_labels_say(label: dict) -> None:  # type: ignore[type-arg]
    r = results(ROOT / "data" / "samples" / label["path"])[-1]
    score = evaluate([label], [diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice)])
    wrong = [
        m
        for m in score.misses
        if m.field in ("outcome", "family", "class", "root", "alarms", "wrong_stop", "rank_precision", "node_precision")
    ]
    assert not wrong


def test_equal_input_gives_an_equal_document(samples: Path) -> None:
    first, second = (results(samples / "deepspeed-rank-killed.log")[-1] for _ in range(2))
    dumped = [json.dumps(diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice)) for r in (first, second)]
    assert dumped[0] == dumped[1]


def test_an_empty_log_is_unknown_and_says_so(tmp_path: Path) -> None:
    d = verdict_of(tmp_path, "").diagnosis
    assert (d.outcome, d.failure_class) == (Outcome.UNKNOWN, "unknown.log_truncated")


def test_a_log_cut_off_in_the_middle_is_not_called_healthy(tmp_path: Path) -> None:
    lines = [
        f" [2026-06-14 03:{i:02d}:00] iteration {i:8d}/     500 | elapsed time per iteration (ms): 900.1 | lm loss: 2.1E+00 | grad norm: 0.4 |"
        for i in range(1, 40)
    ]
    d = verdict_of(tmp_path, "\n".join(lines) + "\n").diagnosis
    assert (d.outcome, d.failure_class) == (Outcome.UNKNOWN, "unknown.log_truncated")


def test_a_time_limit_is_the_schedulers_doing(tmp_path: Path) -> None:
    text = (
        "step 1\nslurmstepd: error: *** JOB 4127311 ON gpu-1 CANCELLED AT 2026-06-14T03:21:57 DUE TO TIME LIMIT ***\n"
    )
    d = verdict_of(tmp_path, text).diagnosis
    assert (d.failure_class, d.domain, d.attempt.job_id) == ("scheduler.time_limit", Domain.SCHEDULER, "4127311")


def test_only_symptoms_make_a_hypothesis_with_what_is_missing(tmp_path: Path) -> None:
    d = verdict_of(tmp_path, "srun: error: gpu-003: task 3: Killed\n").diagnosis
    assert (d.failure_class, d.status) == ("unknown.process_killed", Status.HYPOTHESIS)
    assert any("kernel log" in m for m in d.missing)


def test_fingerprints_forget_what_changes_from_attempt_to_attempt() -> None:
    a = match(
        "checkpoint.missing", text="FileNotFoundError: [Errno 2] No such file: '/scratch/run1/step_100.pt' on rank 3"
    )
    b = match(
        "checkpoint.missing", text="FileNotFoundError: [Errno 2] No such file: '/scratch/run2/step_200.pt' on rank 17"
    )
    assert fingerprint(a) == fingerprint(b)
    assert (entity(a), entity(b)) == ("/scratch/run1/step_100.pt", "/scratch/run2/step_200.pt")


def test_jobs_in_one_file_are_cut_apart_each_with_its_own_identity(tmp_path: Path) -> None:
    def job(restart: int, end: str) -> str:
        return (
            f"Started at Mon Jun 14 03:2{restart}:00 2026\nSLURM_JOB_ID=4101\nSLURM_RESTART_COUNT={restart}\n"
            + "".join(f"iter {i}: loss 5.5385, time 37.23ms, mfu 0.00%\n" for i in range(1, 20))
            + end
        )

    log = tmp_path / "slurm-4101.out"
    log.write_text(
        job(0, "slurmstepd: error: *** JOB 4101 ON gpu-1 CANCELLED AT 2026-06-14T03:21:57 DUE TO NODE FAILURE ***\n")
        + job(1, "Training completed!\n")
    )
    found = results(log)
    assert [str(r.diagnosis.attempt) for r in found] == ["4101.0", "4101.1"]
