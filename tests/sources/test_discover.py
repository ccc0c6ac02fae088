"""Paths to jobs: names, folders, what is left out."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from attribution.model import ConfigError, Source
from attribution.sources.discover import Discovery, FileHints, discover
from attribution.sources.names import hints_of


def make(folder: Path, *names: str, data: bytes = b"text\n") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def jobs(found: Discovery, root: Path) -> list[tuple[str, list[str]]]:
    return [(g.name, [os.path.relpath(f.path, root) for f in g.files]) for g in found.groups]


@pytest.mark.parametrize(
    ("path", "hints"),
    [
        ("slurm-123.out", {"job_id": "123"}),
        ("slurm-123_4.out.gz", {"job_id": "123_4", "array": 4}),
        ("slurm-123-gpu01-3.out", {"job_id": "123", "node": "gpu01", "task": 3}),
        ("train-4242.err", {"job_id": "4242", "name": "train"}),
        ("train_4242_7.out", {"job_id": "4242_7", "array": 7, "name": "train"}),
        ("train.o12345", {"job_id": "12345", "name": "train"}),
        ("4242_rank3.log", {"job_id": "4242", "rank": 3}),
        ("rank0.log", {"rank": 0}),
        ("host3_rank12.log", {"rank": 12, "node": "host3"}),
        ("gpu-001.log", {"node": "gpu-001"}),
        ("x1000c0s1b0n0.out", {"node": "x1000c0s1b0n0"}),
        ("job/gpu-001/rank0.log", {"rank": 0, "node": "gpu-001"}),
        ("logs/none_abc/attempt_1/3/stderr.log", {"local_rank": 3, "restart": 1}),
        ("logs/gpu-2/none_abc/attempt_0/3/stdout.log", {"local_rank": 3, "restart": 0, "node": "gpu-2"}),
        ("jobs/12345/out.txt", {"job_id": "12345"}),
        ("20250601/x.log", {"name": "x"}),
        ("run1.log", {"name": "run1"}),
        ("flan-t5-xl.log", {"name": "flan-t5-xl"}),
        ("001.log", {"name": "001"}),
    ],
)
def test_hints(path: str, hints: dict[str, object]) -> None:
    assert hints_of(path) == FileHints(**hints)  # type: ignore[arg-type]


def test_a_folder_of_ranks_is_one_job_and_a_folder_of_others_is_many(tmp_path: Path) -> None:
    make(tmp_path / "a", "rank10.log", "rank2.log", "launcher.log")
    make(tmp_path / "b", "gpu-001.log", "gpu-002.log")
    make(tmp_path / "c", "123.log", "124.log", "notes.txt")
    assert jobs(discover([str(tmp_path)]), tmp_path) == [
        ("a", ["a/launcher.log", "a/rank2.log", "a/rank10.log"]),
        ("b", ["b/gpu-001.log", "b/gpu-002.log"]),
        ("123", ["c/123.log"]),
        ("124", ["c/124.log"]),
        ("notes", ["c/notes.txt"]),
    ]


def test_output_and_errors_of_one_job_are_together(tmp_path: Path) -> None:
    make(tmp_path, "slurm-7001.out", "slurm-7001.err", "x.out", "x.err", "y.out", "y.log")
    assert [len(g.files) for g in discover([str(tmp_path)]).groups] == [2, 2, 1, 1]


def test_torchrun_folders_of_all_nodes_are_one_job(tmp_path: Path) -> None:
    names = [f"gpu-{n}/none_abc/attempt_0/{r}/stderr.log" for n in (1, 2) for r in (0, 1)]
    (job,) = discover([str(make(tmp_path / "run", *names))]).groups
    assert len(job.files) == 4
    assert {f.hints.node for f in job.files} == {"gpu-1", "gpu-2"}


def test_each_makes_every_path_a_job(tmp_path: Path) -> None:
    make(tmp_path, "a/1.log", "a/2.log", "b.log")
    found = discover([str(tmp_path / "a"), str(tmp_path / "b.log")], each=True)
    assert jobs(found, tmp_path) == [("a", ["a/1.log", "a/2.log"]), ("b", ["b.log"])]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("a/train.log", "b/train.log"), ["a/train", "b/train"]),
        (("x/a/train.log", "y/a/train.log", "z.log"), ["x/a/train", "y/a/train", "z"]),
        (("a/run.log", "a/run.txt"), ["a/run.log", "a/run.txt"]),
        (("a/only.log",), ["only"]),
    ],
)
def test_jobs_that_are_called_alike_are_told_apart_by_their_folders(
    tmp_path: Path, files: tuple[str, ...], names: list[str]
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}: KeyError: 5\n")
    assert sorted(j.name for j in discover([str(tmp_path)]).groups) == names


def test_a_pattern_of_the_user_wins(tmp_path: Path) -> None:
    make(tmp_path, "9_0.log", "9_1.log", "10_0.log", "other.log")
    found = discover([str(tmp_path)], patterns=["{job}_{rank}.log"])
    assert jobs(found, tmp_path) == [("10", ["10_0.log"]), ("9", ["9_0.log", "9_1.log"]), ("other", ["other.log"])]
    with pytest.raises(ConfigError, match="unknown field"):
        discover([], patterns=["{jobb}.log"])
    with pytest.raises(ConfigError, match="twice"):
        discover([], patterns=["{job}{job}.log"])


def test_what_is_no_log_is_left_out_with_a_reason(tmp_path: Path) -> None:
    make(tmp_path, "ckpt.pt", "__pycache__/x.log", "empty.log", data=b"")
    (tmp_path / "model").write_bytes(b"PK\x03\x04" + bytes(100))
    (tmp_path / "packed").write_bytes(gzip.compress(b"\x80\x04pickle"))
    (tmp_path / "ok.log").write_bytes(b"step 1\n")
    (tmp_path / "dangling.log").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.log")
    found = discover([str(tmp_path), str(tmp_path / "missing"), str(tmp_path / "*.nothing")])
    assert [g.name for g in found.groups] == ["empty", "ok"]
    said = {Path(p.path).name: p.what for p in found.problems}
    assert said == {
        "ckpt.pt": "skipped: by its name no log",
        "dangling.log": "cannot be read: No such file or directory",
        "empty.log": "is empty",
        "missing": "cannot be read: No such file or directory",
        "model": "skipped: looks like a zip archive (a PyTorch checkpoint?)",
        "packed": "skipped: looks like a pickle",
        "pipe.log": "is no regular file",
        "*.nothing": "matches nothing",
    }


def test_globs_and_the_same_file_twice(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "b.log", "c.txt")
    found = discover([str(tmp_path / "*.log"), str(tmp_path / "a.log")])
    assert [g.name for g in found.groups] == ["a", "b"]


def test_kernel_logs_are_named_by_the_operator_only(tmp_path: Path) -> None:
    make(tmp_path, "slurm-77.out", "dmesg-gpu-001.log")
    found = discover([str(tmp_path)])
    assert [g.job_id for g in found.groups] == ["77"]
    assert found.kernel_files == ()
    assert "--kernel-log" in found.problems[0].what
    found = discover([str(tmp_path)], kernel_logs=[str(tmp_path / "dmesg*")])
    (kernel,) = found.kernel_files
    assert (kernel.source, kernel.hints.node) == (Source.KERNEL_LOG, "gpu-001")
    assert found.problems == ()


def test_a_kernel_log_tells_its_node_and_boot_itself(tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text(
        "Jun 14 03:21:57 gpu-7 kernel: [    1.500000] rtc_cmos 00:01: setting system clock to "
        "2025-06-14T03:21:57 UTC (1749871317)\nJun 14 03:22:00 gpu-7 kernel: [    4.500000] NVRM: Xid\n"
    )
    (kernel,) = discover([], kernel_logs=[str(path)]).kernel_files
    assert (kernel.hints.node, kernel.hints.boot_s) == ("gpu-7", 1749871315.5)


def test_standard_input_is_a_job() -> None:
    (job,) = discover(["-"]).groups
    assert job.streaming


def test_remote_folders_are_listed() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe({"/logs/slurm-5001.out": b"a\n", "/logs/slurm-5002.out": gzip.compress(b"b\n"), "/logs/x.pt": b""})
    found = discover(["memory://logs"])
    assert [g.job_id for g in found.groups] == ["5001", "5002"]
    from attribution.sources.blocks import read_blocks

    assert [bytes(b.data) for g in found.groups for f in g.files for b in read_blocks(f)] == [b"a\n", b"b\n"]
    assert discover(["nosuchproto://x/y"]).problems[0].what.startswith("cannot be read")
