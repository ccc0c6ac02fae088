"""What the content of a log says of its job."""

from __future__ import annotations

import pytest

from attribution.model import Source
from attribution.sources.identity import Identity, identify
from attribution.sources.prefix import LineParser


def of(*lines: str) -> Identity:
    parser = LineParser("x", Source.JOB_LOG)
    return identify(x for n, line in enumerate(lines, 1) for x in parser.parse(line.encode(), n, 0))


def test_an_environment_dump_says_everything() -> None:
    found = of(
        "SLURM_JOB_ID=4242",
        "SLURM_RESTART_COUNT=2",
        "SLURM_JOB_NODELIST=node[002-004,15]",
        "SLURM_NTASKS=4",
        "declare -x SLURM_CLUSTER_NAME=\"lab\"",
    )  # fmt: skip
    assert (found.job_id, found.restart, found.n_ranks, found.cluster) == ("4242", 2, 4, "lab")
    assert found.nodes == ("node002", "node003", "node004", "node15")
    assert found.because[0] == "x:1 SLURM_JOB_ID=4242"


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("slurmstepd: error: *** JOB 123 ON gpu-1 CANCELLED AT 2025-06-14T03:21:57 ***", "123"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
            "77",
        ),
        ("srun: job 991 queued and waiting for resources", "991"),
        ("Subject: Job 21070555: <Add_information_0> in cluster <dcc> Done", "21070555"),
        ("os.environ: {'SLURM_JOB_ID': '55', 'X': '1'}", "55"),
        ("job 3 of 7 done", None),
        ("SLURM_JOB_ID , SLURM_NTASKS , SLURM_PROCID", None),
    ],
)
def test_job_id(line: str, job: str | None) -> None:
    assert of(line).job_id == job


def test_array_tasks_are_named_by_array_and_task() -> None:
    assert of("SLURM_JOB_ID=9001", "SLURM_ARRAY_JOB_ID=9000", "SLURM_ARRAY_TASK_ID=4").job_id == "9000_4"


def test_the_largest_communicator_is_the_world() -> None:
    line = "gpu-1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks {} cudaDev 0"
    assert of(line.format(8), line.format(64), line.format(2)).n_ranks == 64


def test_a_hostile_node_list_is_ignored() -> None:
    assert of("SLURM_JOB_NODELIST=n[0-9999999999]").nodes == ()
    assert of("SLURM_JOB_NODELIST=a[1-65536]b[1-65536]").nodes == ()
