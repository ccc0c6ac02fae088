"""Paths -> jobs: which files there are, and which of them belong together.

Names decide here, content decides later (`attribution.sources.identity`, `attribution.attempts`). A folder whose files
are named after ranks or nodes is one job; a folder of other files is many.
"""

from __future__ import annotations

import glob as globbing
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from attribution.model import Source
from attribution.sources.kernel_log import hints_of_kernel_log
from attribution.sources.names import (
    FileHints,
    base_of,
    compile_pattern,
    hints_of,
    is_companion,
    is_kernel_log,
    job_folder_of,
    parent_of,
    stem_of,
    suffix_of,
)
from attribution.sources.streams import head_of, why_binary

__all__ = ["Discovery", "FileHints", "JobFiles", "Problem", "SourceFile", "discover", "group"]

#: Suffixes that are no logs, whatever is in them; of other files the content decides.
_SKIP = (
    ".pt", ".pth", ".safetensors", ".bin", ".npy", ".npz", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".pyc", ".so", ".o",
    ".a", ".parquet", ".arrow", ".tar", ".tgz", ".zip", ".whl", ".h5", ".hdf5", ".ckpt", ".pkl", ".distcp", ".onnx",
    ".gguf", ".db", ".sqlite", ".duckdb", ".idx", ".mp4", ".wav", ".md", ".rst", ".yaml", ".yml", ".toml", ".ipynb",
    "labels.jsonl",
)  # fmt: skip
_SKIP_FOLDERS = frozenset((".git", "__pycache__", "node_modules", "recovery-store", ".venv", ".snapshot"))
#: Suffixes by which one job's output and errors go to two files.
_PAIR = frozenset((".out", ".err", ".stdout", ".stderr", ".output", ".error", ".o", ".e"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One log.

    `path` is what is opened (``-`` for standard input), `display` what people see; `default_year` dates stamps without
    a year; `size_bytes` is that on disk, 0 for a stream; `compression` is gz, zst, xz, bz2 or None.
    """

    path: str
    display: str
    source: Source = Source.JOB_LOG
    compression: str | None = None
    size_bytes: int = 0
    hints: FileHints = field(default_factory=FileHints)
    default_year: int = 1970
    stream: BinaryIO | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Files that tell of one job."""

    name: str
    files: tuple[SourceFile, ...]
    job_id: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, compressed or not; 0 for streams."""
        return sum(f.size_bytes for f in self.files)

    @property
    def streaming(self) -> bool:
        """True where a file can be read only once and only in this process."""
        return any(f.path == "-" for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A path that was left out, or is odd, and why. `lost` is False where nothing of a log was lost."""

    path: str
    what: str
    lost: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What was found: jobs in a fixed order, kernel logs, and what was left out."""

    groups: tuple[JobFiles, ...]
    kernel_files: tuple[SourceFile, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Finder:
    """Collects files and problems; one per discovery."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self.patterns = patterns
        self.problems: list[Problem] = []

    def problem(self, path: str, what: str, *, lost: bool = True) -> None:
        """Note that a path was left out, or is odd."""
        self.problems.append(Problem(path=path, what=what, lost=lost))

    def _file(self, path: str, size: int, mtime: float, source: Source) -> SourceFile | None:
        """A file as a source, None (and a problem) where it is no readable log."""
        if path.lower().endswith(_SKIP):
            self.problem(path, "skipped: by its name no log", lost=False)
            return None
        try:
            compression, head = head_of(path)
        except OSError as error:
            self.problem(path, f"cannot be read: {error.strerror}")
            return None
        if (why := why_binary(head)) is not None:
            self.problem(path, f"skipped: {why}")
            return None
        if size == 0:
            self.problem(path, "is empty")
        return SourceFile(
            path=path,
            display=path,
            source=source,
            compression=compression,
            size_bytes=size,
            hints=hints_of(path, self.patterns),
            default_year=time.gmtime(mtime).tm_year,
        )

    def below(self, path: str, source: Source = Source.JOB_LOG) -> list[SourceFile]:
        """Every log at or below a path, glob or remote address."""
        if "://" in path:
            return self._remote(path, source)
        paths = [path]
        if globbing.has_magic(path) and not os.path.lexists(path):
            paths = sorted(globbing.glob(path, recursive=True))  # noqa: PTH207 - names stay as the user wrote them
            if not paths:
                self.problem(path, "matches nothing")
        return [file for one in paths for file in self._local(one, source)]

    def _local(self, path: str, source: Source) -> Iterator[SourceFile]:
        try:
            info = os.stat(path)  # noqa: PTH116 - a Path per file costs more than the call
        except (OSError, ValueError) as error:
            self.problem(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")
            return
        if stat.S_ISDIR(info.st_mode):
            yield from self._walk(path, source)
        elif stat.S_ISREG(info.st_mode):
            found = self._file(path, info.st_size, info.st_mtime, source)
            if found:
                yield found
        elif stat.S_ISFIFO(info.st_mode) or stat.S_ISCHR(info.st_mode):
            year = time.gmtime(info.st_mtime).tm_year
            yield SourceFile(path=path, display=path, source=source, default_year=year)
        else:
            self.problem(path, "is no file")

    def _walk(self, folder: str, source: Source) -> Iterator[SourceFile]:
        """Logs below a folder, sorted by name; links to folders are not followed, since they may form a ring."""
        waiting = [folder.rstrip("/") or "/"]
        while waiting:
            at = waiting.pop()
            try:
                with os.scandir(at) as entries:
                    ordered = sorted(entries, key=lambda e: e.name)
            except OSError as error:
                self.problem(at, f"cannot be listed: {error.strerror}")
                continue
            folders = []
            for entry in ordered:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIP_FOLDERS:
                        folders.append(entry.path)
                elif (found := self._entry(entry, source)) is not None:
                    yield found
            waiting.extend(reversed(folders))

    def _entry(self, entry: os.DirEntry[str], source: Source) -> SourceFile | None:
        try:
            info = entry.stat()
        except OSError as error:
            self.problem(entry.path, f"cannot be read: {error.strerror}")
            return None
        if not stat.S_ISREG(info.st_mode):
            if not stat.S_ISDIR(info.st_mode):
                self.problem(entry.path, "is no regular file", lost=False)
            return None
        return self._file(entry.path, info.st_size, info.st_mtime, source)

    def _remote(self, path: str, source: Source) -> list[SourceFile]:
        """Files at a remote address, which may be a folder or a glob where the protocol can list."""
        try:
            import fsspec
        except ImportError:
            self.problem(path, "remote addresses need fsspec: pip install 'recovery-attribution[remote]'")
            return []
        try:
            system, inner = fsspec.core.url_to_fs(path)
            if globbing.has_magic(inner):
                names = sorted(system.glob(inner))
            elif system.isdir(inner):
                names = sorted(system.find(inner))
            else:
                names = [inner]
            found = [self._remote_file(system, name, source) for name in names]
        except Exception as error:  # each protocol raises its own kinds
            self.problem(path, f"cannot be read: {type(error).__name__}: {error}")
            return []
        if not found:
            self.problem(path, "matches nothing")
        return [f for f in found if f is not None]

    def _remote_file(self, system: object, name: str, source: Source) -> SourceFile | None:
        url = system.unstrip_protocol(name)  # type: ignore[attr-defined]
        if url.lower().endswith(_SKIP):
            self.problem(url, "skipped: by its name no log", lost=False)
            return None
        size = system.info(name).get("size") or 0  # type: ignore[attr-defined]
        return SourceFile(path=url, display=url, source=source, size_bytes=size, hints=hints_of(url, self.patterns))


def group(files: Sequence[SourceFile]) -> list[JobFiles]:
    """Files that belong together: equal job ids, or one folder of files named after ranks or nodes."""
    jobs: dict[tuple[str, str], list[SourceFile]] = {}
    folders: dict[str, list[SourceFile]] = {}
    for f in files:
        if f.hints.job_id is not None:
            jobs.setdefault((f.hints.name or "", f.hints.job_id), []).append(f)
        else:
            folders.setdefault(job_folder_of(f.path), []).append(f)
    out = [JobFiles(name=job_id, files=_in_order(fs), job_id=job_id) for (_, job_id), fs in jobs.items()]
    for folder, fs in folders.items():
        out.extend(_folder_jobs(folder, fs))
    order = {f.path: i for i, f in enumerate(files)}
    return sorted(out, key=lambda j: min(order[f.path] for f in j.files))


def _folder_jobs(folder: str, files: Sequence[SourceFile]) -> Iterator[JobFiles]:
    """Jobs of one folder without job ids: parts of one name are one job, and a launcher's output goes with them."""
    parts: dict[str, list[SourceFile]] = {}
    others: list[SourceFile] = []
    for f in files:
        if f.hints.is_part:
            parts.setdefault(f.hints.name or "", []).append(f)
        else:
            others.append(f)
    if len(parts) == 1:
        name, members = next(iter(parts.items()))
        companions = [f for f in others if is_companion(f.path)]
        if len(members) > 1 or companions:
            members += companions
            others = [f for f in others if not is_companion(f.path)]
        yield JobFiles(
            name=(base_of(folder) or name) if len(members) > 1 else _stem(members[0]), files=_in_order(members)
        )
    else:
        for name, members in parts.items():
            yield JobFiles(name=name or base_of(folder) or _stem(members[0]), files=_in_order(members))
    yield from _pairs(others)


def _stem(file: SourceFile) -> str:
    return stem_of(base_of(file.path))


def _in_order(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """By node, then rank, then path; launchers' files first."""

    def key(f: SourceFile) -> tuple[bool, int, str]:
        h = f.hints
        number = next((x for x in (h.rank, h.task, h.local_rank) if x is not None), -1)
        return (h.is_part, number if h.node is None or h.rank is not None else -1, f.path)

    return tuple(sorted(files, key=key))


def _pairs(files: Sequence[SourceFile]) -> Iterator[JobFiles]:
    """Files of one job each, but ``x.out`` and ``x.err`` together."""
    stems: dict[str, list[SourceFile]] = {}
    for f in files:
        bare = f.path[: len(f.path) - len(base_of(f.path))] + stem_of(base_of(f.path))
        stems.setdefault(bare, []).append(f)
    for fs in stems.values():
        suffixes = [suffix_of(base_of(f.path)) for f in fs]
        together = len(fs) > 1 and len(set(suffixes)) == len(fs) and _PAIR.issuperset(suffixes)
        for some in [fs] if together else [[f] for f in fs]:
            yield JobFiles(name=_stem(some[0]), files=tuple(some))


def _told_apart(groups: Sequence[JobFiles]) -> tuple[JobFiles, ...]:
    """Jobs without an id that are called alike, as ``a/train.log`` and ``b/train.log``, are called after their folders.

    As many folders are taken as tell them apart; jobs of one folder get the suffix too. The name becomes the job id of
    the attempt's key, where nothing in the log tells a better one: two jobs must not share it.
    """
    alike: dict[str, list[JobFiles]] = {}
    for j in groups:
        if j.job_id is None:
            alike.setdefault(j.name, []).append(j)
    names: dict[int, str] = {}
    for name, jobs in alike.items():
        if len(jobs) > 1:
            names.update(zip(map(id, jobs), _unlike(name, [j.files[0].path for j in jobs]), strict=True))
    return tuple(replace(j, name=names.get(id(j), j.name)) for j in groups)


def _unlike(name: str, paths: Sequence[str]) -> list[str]:
    """A name for each of `paths`, no two alike, of as few folders as that takes."""
    folders = [[p for p in parent_of(path).split("/") if p] for path in paths]
    folders = [f[:-1] if f and f[-1] == name else f for f in folders]  # a job that is called after its folder
    for last in ([name] * len(paths), [base_of(path) for path in paths]):
        for depth in range(1, max(map(len, folders)) + 1):
            found = ["/".join((*f[-depth:], b)) for f, b in zip(folders, last, strict=True)]
            if len(set(found)) == len(found):
                return found
    return [f"{name}~{i}" for i in range(1, len(paths) + 1)]


def discover(
    paths: Sequence[str],
    *,
    patterns: Sequence[str] = (),
    each: bool = False,
    kernel_logs: Sequence[str] = (),
    stdin: BinaryIO | None = None,
) -> Discovery:
    """Jobs below `paths` (files, folders, globs, remote addresses, ``-`` for standard input), in a fixed order.

    A file that is only named like a kernel log is left out with a note: whoever can write into a job's folder must not
    be able to speak in the kernel's name, so trusted logs are named one by one.

    Args:
        paths: where to look.
        patterns: file names with fields in braces, as ``{job}_{rank}.log``.
        each: every path is one job, whatever is below it.
        kernel_logs: files, folders or globs of kernel logs, which are kept apart.
        stdin: what ``-`` reads instead of the process's standard input.

    Raises:
        ConfigError: a pattern names an unknown field.
    """
    finder = _Finder([compile_pattern(p) for p in patterns])
    kernel = {f.path: f for path in kernel_logs for f in finder.below(path, Source.KERNEL_LOG)}
    groups: list[JobFiles] = []
    loose: dict[str, SourceFile] = {}
    for path in paths:
        if path == "-":
            piped = SourceFile(path="-", display="<stdin>", default_year=time.gmtime().tm_year, stream=stdin)
            groups.append(JobFiles(name="stdin", files=(piped,)))
            continue
        found = [f for f in finder.below(path) if f.path not in kernel]
        if each:
            if found:
                groups.append(JobFiles(name=stem_of(base_of(path)) or path, files=_in_order(found)))
            continue
        for f in found:
            if is_kernel_log(f.path) and len(found) > 1:
                finder.problem(
                    f.path,
                    "skipped: named like a kernel log; give it with --kernel-log to have it read as one",
                    lost=False,
                )
            else:
                loose[f.path] = f
    return Discovery(
        groups=_told_apart((*groups, *group(list(loose.values())))),
        kernel_files=tuple(replace(f, hints=hints_of_kernel_log(f)) for f in kernel.values()),
        problems=tuple(finder.problems),
    )
