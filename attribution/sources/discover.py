"""Paths -> jobs: which files there are, and which of them belong together.

Names decide here, content decides later (`attribution.sources.identity`, `attribution.attempts`). A folder whose files are
named after ranks or nodes is one job; a folder of other files is many.
"""

from __future__ import annotations

import glob as globbing
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from attribution.model import ConfigError, Source
from attribution.sources.streams import head_of, why_binary

#: Suffixes that are no logs; the content of others decides.
_SKIP = (
    ".pt", ".pth", ".safetensors", ".bin", ".npy", ".npz", ".png", ".jpg", ".pdf", ".pyc", ".so", ".parquet", ".arrow",
    ".tar", ".zip", ".whl", ".h5", ".ckpt", ".pkl", ".distcp",
)  # fmt: skip
_SKIP_DIRS = (".git", "__pycache__", "node_modules", "recovery-store")
_COMPRESSED = re.compile(r"\.(?:gz|zst|xz|bz2)$")
_TEXT_SUFFIX = re.compile(r"\.(?:log|out|err|txt|stdout|stderr|jsonl?|output|error)$", re.IGNORECASE)
_ID = r"(?P<job>\d{1,12})(?:_(?P<array>\d{1,9}))?"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHints:
    """What a file's name says."""

    job_id: str | None = None
    array: int | None = None
    name: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    node: str | None = None
    step: str | None = None
    restart: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One log. `display` is the path as the user gave it; `default_year` dates stamps without a year."""

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
    """A path that was left out, and why."""

    path: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What was found: jobs in a fixed order, kernel logs, and what was left out."""

    groups: tuple[JobFiles, ...]
    kernel_files: tuple[SourceFile, ...] = ()
    problems: tuple[Problem, ...] = ()


# Names of files, most telling first. Each is matched against the name without compression and text suffixes.
_NAMES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(p, re.IGNORECASE)
    for p in (
        rf"^slurm-{_ID}(?:[._-](?P<node>[a-z][\w-]*\d))?(?:[._-]t?(?P<task>\d{{1,6}}))?$",
        rf"^(?P<name>[\w.+-]*?[A-Za-z])[-_.]{_ID}(?:[-_.](?P<node>[a-z][a-z-]*\d+))(?:[-_.](?P<task>\d{{1,6}}))?$",
        rf"^(?P<name>[\w.+-]*?[A-Za-z])[-_.](?P<job>\d{{4,12}})(?:_(?P<array>\d{{1,9}}))?$",
        r"^(?P<job>\d{5,12})(?:_(?P<array>\d{1,9}))?$",
    )
)
_RANK = re.compile(r"^(?:.*?[-_.])?(?:global_)?rank[-_]?(?P<rank>\d{1,7})$", re.IGNORECASE)
_TASK = re.compile(r"^(?:.*?[-_.])?(?:task|proc|worker|process)[-_]?(?P<task>\d{1,7})$", re.IGNORECASE)
_NODE = re.compile(r"^(?P<node>(?:gpu|node|nid|cn|host|dgx|compute|worker|n|hpc|nvl|c|r)[\w-]*?\d[\w-]*)$", re.IGNORECASE)
_KERNEL = re.compile(r"^(?:dmesg|kern(?:el)?|journal|messages|syslog)\b|[._-](?:dmesg|kern(?:el)?|journal)$", re.IGNORECASE)


def stem_of(name: str) -> str:
    """A file's name without compression and text suffixes: ``slurm-42.out.gz`` -> ``slurm-42``."""
    name = _COMPRESSED.sub("", name)
    return _TEXT_SUFFIX.sub("", name)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A user's ``{job}_{rank}.log`` as a regular expression over the file's name.

    Raises:
        ConfigError: an unknown name in braces.
    """
    kinds = {
        "job": r"\d+", "array": r"\d+", "task": r"\d+", "rank": r"\d+", "step": r"\w+", "restart": r"\d+",
        "node": r"[\w.-]+?", "name": r".+?",
    }  # fmt: skip
    out, at = [], 0
    for found in re.finditer(r"\{(\w+)\}", pattern):
        name = found.group(1)
        if name not in kinds:
            raise ConfigError(f"unknown field {{{name}}}", where=f"--pattern {pattern}", mend="use " + ", ".join(kinds))
        out.append(re.escape(pattern[at : found.start()]))
        out.append(f"(?P<{name}>{kinds[name]})")
        at = found.end()
    out.append(re.escape(pattern[at:]))
    return re.compile("".join(out) + r"(?:\.(?:gz|zst|xz|bz2))?$")


def _from_groups(groups: dict[str, str | None]) -> FileHints:
    def whole(key: str) -> int | None:
        value = groups.get(key)
        return int(value) if value is not None and value.isdigit() and len(value) < 10 else None

    job, array = groups.get("job"), groups.get("array")
    return FileHints(
        job_id=f"{job}_{array}" if job and array else job,
        array=whole("array"),
        name=groups.get("name"),
        rank=whole("rank"),
        task=whole("task"),
        node=groups.get("node"),
        step=groups.get("step"),
        restart=whole("restart"),
    )


def hints_of(path: str, patterns: Sequence[re.Pattern[str]] = ()) -> FileHints:
    """What a file's name, and the torchrun folders above it, say."""
    name = os.path.basename(path)
    for pattern in patterns:
        found = pattern.search(name) or pattern.search(path)
        if found:
            return _from_groups(found.groupdict())
    torchrun = re.search(r"/(?:attempt_(?P<restart>\d+)/)(?P<local>\d+)/(?:stdout|stderr)(?:\.log)?$", path)
    if torchrun:
        return FileHints(local_rank=int(torchrun["local"]), restart=int(torchrun["restart"]))
    stem = stem_of(name)
    for pattern in (_RANK, _TASK, *_NAMES, _NODE):
        found = pattern.match(stem)
        if found:
            return _from_groups(found.groupdict())
    return FileHints()


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda e: e.name)
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIP_DIRS:
                yield from _walk(entry.path)
        elif entry.is_file():
            yield entry


class _Finder:
    """Collects files and problems; one per discovery."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self.patterns = patterns
        self.problems: list[Problem] = []

    def file(self, path: str, size: int, mtime: float, *, source: Source = Source.JOB_LOG) -> SourceFile | None:
        """A file as a source, None (and a problem) where it is no readable log."""
        if path.lower().endswith(_SKIP):
            self.problems.append(Problem(path=path, what="skipped: by its name no log"))
            return None
        try:
            compression, head = head_of(path)
        except OSError as error:
            self.problems.append(Problem(path=path, what=f"cannot be read: {error.strerror}"))
            return None
        why = why_binary(head)
        if why:
            self.problems.append(Problem(path=path, what=f"skipped: {why}"))
            return None
        if not head:
            self.problems.append(Problem(path=path, what="is empty"))
        return SourceFile(
            path=path,
            display=path,
            source=source,
            compression=compression,
            size_bytes=size,
            hints=hints_of(path, self.patterns),
            default_year=time.gmtime(mtime).tm_year,
        )

    def below(self, path: str, *, source: Source = Source.JOB_LOG) -> list[SourceFile]:
        """Every log at or below a path or glob."""
        if "://" in path:
            return [SourceFile(path=path, display=path, source=source, hints=hints_of(path, self.patterns))]
        expanded = sorted(globbing.glob(path, recursive=True)) if globbing.has_magic(path) and not os.path.exists(path) else [path]
        if not expanded:
            self.problems.append(Problem(path=path, what="matches nothing"))
        out: list[SourceFile] = []
        for one in expanded:
            out.extend(self._one(one, source))
        return out

    def _one(self, path: str, source: Source) -> Iterator[SourceFile]:
        try:
            info = os.stat(path)
        except OSError as error:
            self.problems.append(Problem(path=path, what=f"cannot be read: {error.strerror}"))
            return
        if stat.S_ISDIR(info.st_mode):
            try:
                for entry in _walk(path):
                    there = entry.stat()
                    found = self.file(entry.path, there.st_size, there.st_mtime, source=source)
                    if found:
                        yield found
            except OSError as error:
                self.problems.append(Problem(path=path, what=f"cannot be listed: {error.strerror}"))
        elif stat.S_ISREG(info.st_mode):
            found = self.file(path, info.st_size, info.st_mtime, source=source)
            if found:
                yield found
        elif stat.S_ISFIFO(info.st_mode) or stat.S_ISCHR(info.st_mode):
            yield SourceFile(path=path, display=path, source=source, default_year=time.gmtime(info.st_mtime).tm_year)
        else:
            self.problems.append(Problem(path=path, what="is no file"))


def group(files: Sequence[SourceFile]) -> list[JobFiles]:
    """Files that belong together: equal job ids, or one folder of files named after ranks or nodes."""
    jobs: dict[tuple[str, str], list[SourceFile]] = {}
    parts: dict[str, list[SourceFile]] = {}
    for f in files:
        parent = os.path.dirname(f.path)
        if f.hints.job_id is not None:
            jobs.setdefault((f.hints.name or "", f.hints.job_id), []).append(f)
        elif f.hints.local_rank is not None:
            parts.setdefault(str(Path(parent).parent.parent), []).append(f)
        else:
            parts.setdefault(parent, []).append(f)
    out = [JobFiles(name=job_id, files=tuple(fs), job_id=job_id) for (_, job_id), fs in jobs.items()]
    for parent, fs in parts.items():
        members = [f for f in fs if _is_part(f.hints)]
        if len(members) > 1 and len(members) == len(fs):
            out.append(JobFiles(name=os.path.basename(parent) or parent, files=tuple(_in_rank_order(fs))))
        else:
            out.extend(_pairs(fs))
    order = {f.path: i for i, f in enumerate(files)}
    return sorted(out, key=lambda j: min(order[f.path] for f in j.files))


def _is_part(hints: FileHints) -> bool:
    return any(x is not None for x in (hints.rank, hints.task, hints.node, hints.local_rank))


def _in_rank_order(files: Sequence[SourceFile]) -> list[SourceFile]:
    def key(f: SourceFile) -> tuple[int, str]:
        h = f.hints
        number = next((x for x in (h.rank, h.task, h.local_rank) if x is not None), 10**9)
        return (number, f.path)

    return sorted(files, key=key)


def _pairs(files: Sequence[SourceFile]) -> list[JobFiles]:
    """Files of one job each, but ``x.out`` and ``x.err`` together."""
    by_stem: dict[str, list[SourceFile]] = {}
    for f in files:
        by_stem.setdefault(f"{os.path.dirname(f.path)}/{stem_of(os.path.basename(f.path))}", []).append(f)
    out = []
    for fs in by_stem.values():
        kinds = {os.path.splitext(_COMPRESSED.sub("", f.path))[1].lower() for f in fs}
        together = len(fs) > 1 and kinds <= {".out", ".err", ".stdout", ".stderr", ".output", ".error"}
        for one in [fs] if together else [[f] for f in fs]:
            out.append(JobFiles(name=stem_of(os.path.basename(one[0].path)), files=tuple(one)))
    return out


def discover(
    paths: Sequence[str],
    *,
    patterns: Sequence[str] = (),
    each: bool = False,
    kernel_logs: Sequence[str] = (),
    stdin: BinaryIO | None = None,
) -> Discovery:
    """Jobs below `paths` (files, folders, globs, remote addresses, ``-`` for standard input), in a fixed order.

    Args:
        paths: where to look.
        patterns: file names with fields in braces, as ``{job}_{rank}.log``.
        each: every path is one job, whatever is below it.
        kernel_logs: files or folders of kernel logs, which are kept apart.
        stdin: what ``-`` reads instead of the process's standard input.

    Raises:
        ConfigError: a pattern names an unknown field.
    """
    finder = _Finder([compile_pattern(p) for p in patterns])
    groups: list[JobFiles] = []
    loose: dict[str, SourceFile] = {}
    for path in paths:
        if path == "-":
            piped = SourceFile(path="-", display="<stdin>", default_year=time.gmtime().tm_year, stream=stdin)
            groups.append(JobFiles(name="stdin", files=(piped,)))
            continue
        found = finder.below(path)
        if each and found:
            name = os.path.basename(path.rstrip("/")) or path
            groups.append(JobFiles(name=stem_of(name), files=tuple(_in_rank_order(found))))
        else:
            loose.update((f.path, f) for f in found)
    kernel = [f for path in kernel_logs for f in finder.below(path, source=Source.KERNEL_LOG)]
    named = {f.path for f in kernel}
    rest = []
    for f in loose.values():
        if f.path in named:
            continue
        if _KERNEL.search(stem_of(os.path.basename(f.path))) and not each:
            kernel.append(replace(f, source=Source.KERNEL_LOG, hints=kernel_hints(f.path)))
        else:
            rest.append(f)
    kernel = [replace(f, hints=kernel_hints(f.path)) for f in kernel]
    return Discovery(
        groups=(*groups, *group(rest)), kernel_files=tuple(kernel), problems=tuple(finder.problems)
    )


def kernel_hints(path: str) -> FileHints:
    """The node that a kernel log's name, or the folder it lies in, tells: ``dmesg-gpu-001.log``, ``gpu-001/dmesg``."""
    for part in (stem_of(os.path.basename(path)), os.path.basename(os.path.dirname(path))):
        bare = re.sub(r"^(?:dmesg|kern(?:el)?|journal|messages|syslog)[._-]?|[._-]?(?:dmesg|kern(?:el)?|journal)$", "", part)
        if bare and _NODE.match(bare):
            return FileHints(node=bare)
    return FileHints()
