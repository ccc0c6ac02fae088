"""Saves what a requeue would destroy: the job's record, accounting's rows, and its logs.

After a requeue sacct says REQUEUED where it said FAILED, and by default the next attempt truncates the log. Log paths
come from users: only regular files that belong to the job's user are copied, never through a link in the last part.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import orjson

from attribution.model import AttemptKey, to_plain
from attribution.schedulers.base import Job, StepRecord

MAX_LOG_BYTES = 64 << 20
_HEAD_BYTES = 8 << 20
_PATTERN = re.compile(r"%(\d{0,2})([%jAaxuNtns])", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9._@-]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where the evidence of an attempt lies and what could not be saved."""

    folder: Path
    files: tuple[str, ...]
    missing: tuple[str, ...]


def log_paths(job: Job) -> tuple[Path, ...]:
    """Files that the batch script writes to, patterns expanded as Slurm does (sbatch(1), "filename pattern")."""
    default = "slurm-%A_%a.out" if job.array_task is not None else "slurm-%j.out"
    out = job.stdout or default
    names = [out] + ([job.stderr] if job.stderr and job.stderr != out else [])
    return tuple(Path(job.workdir, expand_pattern(name, job)) for name in names if name != "/dev/null")


def expand_pattern(name: str, job: Job) -> str:
    """One file name with its ``%`` patterns replaced, for the batch script (``%t`` and ``%n`` are 0 there)."""
    values = {
        "j": str(job.raw_id),
        "A": str(job.array_id or job.raw_id),
        "a": str(job.array_task if job.array_task is not None else 4294967294),
        "x": job.name,
        "u": job.user,
        "N": job.batch_host.partition(".")[0],
        "t": "0",
        "n": "0",
        "s": "batch",
    }

    def one(found: re.Match[str]) -> str:
        width, letter = found[1], found[2]
        if letter == "%":
            return "%"
        value = values[letter]
        return value.zfill(min(int(width), 10)) if width and value.isdigit() else value

    return _PATTERN.sub(one, name)


def save(folder: Path, job: Job, attempt: AttemptKey, rows: tuple[StepRecord, ...], now_s: float) -> Saved:
    """Write the evidence of one attempt into its own folder under `folder`; doing it twice is harmless.

    Raises OSError when the record itself cannot be written. A log that cannot be copied is listed in `missing`.
    """
    target = folder / _UNSAFE.sub("_", str(attempt))[:200]
    target.mkdir(parents=True, exist_ok=True, mode=0o750)
    files, missing = [], []
    for index, path in enumerate(log_paths(job)):
        name = f"log{index}.txt"
        why = _copy(path, target / name, job.uid)
        if why:
            missing.append(f"{path}: {why}")
        else:
            files.append(name)
    record = {"schema": "recovery.evidence/1", "saved_at_s": now_s, "attempt": str(attempt), "job": to_plain(job)}
    record |= {"accounting": to_plain(rows), "logs": [str(p) for p in log_paths(job)], "missing": missing}
    _write(target / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
    return Saved(folder=target, files=("record.json", *files), missing=tuple(missing))


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def _copy(source: Path, target: Path, uid: int) -> str | None:
    """Copy head and tail of a log; the reason when it was not copied."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or "cannot be opened"
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if uid >= 0 and status.st_uid != uid:
            return "belongs to another user"
        _write(target, _bounded(fd, status.st_size))
    except OSError as error:
        return error.strerror or "cannot be copied"
    finally:
        os.close(fd)
    return None


def _bounded(fd: int, size: int) -> bytes:
    """The file, or its head and tail around a note of how much is left out."""
    with os.fdopen(fd, "rb", closefd=False) as file:
        if size <= MAX_LOG_BYTES:
            return file.read(MAX_LOG_BYTES)
        head = file.read(_HEAD_BYTES)
        tail = MAX_LOG_BYTES - _HEAD_BYTES
        file.seek(-tail, os.SEEK_END)
        return head + b"\n[recovery: %d bytes left out here]\n" % (size - MAX_LOG_BYTES) + file.read(tail)
