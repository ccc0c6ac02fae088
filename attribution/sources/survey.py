"""How some logs would be understood, and whether the installation is sound: what ``recovery doctor`` prints.

Files are read whole, since damage may be anywhere, but only samples of their lines are parsed.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from attribution.model import Line, Source, SourceError
from attribution.sources.accounting import parse_accounting
from attribution.sources.blocks import Block, ReadReport, read_blocks
from attribution.sources.discover import Problem, SourceFile, discover
from attribution.sources.identity import Identity, identify
from attribution.sources.prefix import LineParser

#: Lines parsed of each block that is sampled, and the blocks that are: the first ones and then every n-th.
_SAMPLE_LINES = 400
_FIRST_BLOCKS = 4
_EVERY = 64
_MOST_LINES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSurvey:
    """One file as it is understood. `unknown` says what was not recognised, `problems` what could not be read."""

    path: str
    job: str
    identity: str
    kind: str
    compression: str | None
    size_bytes: int
    bytes_read: int
    lines: int
    prefixes: tuple[str, ...]
    time: str
    unknown: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Files in the order of their jobs, and what was left out."""

    files: tuple[FileSurvey, ...] = ()
    problems: tuple[Problem, ...] = ()
    jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of the installation."""

    what: str
    good: bool
    found: str
    mend: str = ""


def survey(
    paths: Sequence[str],
    *,
    patterns: Sequence[str] = (),
    each: bool = False,
    kernel_logs: Sequence[str] = (),
    accounting: Sequence[str] = (),
) -> Survey:
    """Look at every file that `analyze` would read with the same arguments.

    Raises:
        ConfigError: a pattern names an unknown field.
    """
    found = discover(paths, patterns=patterns, each=each, kernel_logs=kernel_logs)
    files = [_file(f, job.name) for job in found.groups for f in job.files]
    files += [_file(f, f.hints.node or "?") for f in found.kernel_files]
    files += [_accounting(name) for name in accounting]
    return Survey(files=tuple(files), problems=found.problems, jobs=len(found.groups))


def _file(file: SourceFile, job: str) -> FileSurvey:
    report = ReadReport()
    parser = LineParser(file.display, file.source, hints=file.hints, default_year=file.default_year)
    lines: list[Line] = []
    shapes: Counter[str] = Counter()
    newlines = 0
    for number, block in enumerate(read_blocks(file, report=report)):
        newlines = block.next_line - 1
        if (number < _FIRST_BLOCKS or number % _EVERY == 0) and len(lines) < _MOST_LINES:
            for line_no, offset, raw in _lines_of(block):
                shapes[" + ".join(parser.prefixes(raw))] += 1
                lines.extend(parser.parse(raw, line_no, offset))
    unknown = []
    if report.bytes_read and parser.last_time_s is None:
        unknown.append("no time stamps")
    if file.source is Source.KERNEL_LOG and not file.hints.node:
        unknown.append("no node")
    prefixes = [name for name, n in shapes.most_common(6) if name and n > 1]
    return FileSurvey(
        path=file.display,
        job=job,
        identity=_identity(identify(lines), file, job),
        kind=str(file.source),
        compression=report.compression,
        size_bytes=file.size_bytes,
        bytes_read=report.bytes_read,
        lines=newlines,
        prefixes=tuple(prefixes) or ("none",),
        time=_span(lines),
        unknown=tuple(unknown),
        problems=tuple(report.problems),
    )


def _lines_of(block: Block) -> Iterator[tuple[int, int, bytes]]:
    data = bytes(block.data)
    at, number = 0, block.first_line
    for piece in data.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]:
        yield number, block.offset + at, piece
        at += len(piece) + 1
        number += 1


def _span(lines: Sequence[Line]) -> str:
    from datetime import UTC, datetime

    times = [line.place.time_s for line in lines if line.place.time_s is not None]
    if not times:
        return "none"
    first, last = (datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S") for t in (min(times), max(times)))
    return f"{first} to {last}"


def _identity(found: Identity, file: SourceFile, job: str) -> str:
    """What the content, else the name, says of the job and of whose lines these are."""
    hints = file.hints
    words = [f"job {found.job_id} (content)" if found.job_id else f"job {hints.job_id or job} (name)"]
    if found.restart is not None:
        words.append(f"restart {found.restart}")
    for what in ("node", "rank", "task", "local_rank"):
        value = getattr(hints, what)
        if value is not None:
            words.append(f"{what} {value}")
    if found.n_ranks:
        words.append(f"{found.n_ranks} ranks")
    if found.nodes:
        words.append(f"{len(found.nodes)} nodes")
    return ", ".join(words)


def _accounting(name: str) -> FileSurvey:
    problems: tuple[str, ...] = ()
    size, records = 0, 0
    try:
        data = Path(name).read_bytes()
        size = len(data)
        records = len(parse_accounting(data, name=name))
    except SourceError as error:
        problems = (str(error),)
    except OSError as error:
        problems = (f"{name}: cannot be read: {error.strerror}",)
    return FileSurvey(
        path=name,
        job="",
        identity=f"{records} attempts",
        kind=str(Source.ACCOUNTING),
        compression=None,
        size_bytes=size,
        bytes_read=size,
        lines=0,
        prefixes=(),
        time="none",
        unknown=() if records or problems else ("no jobs",),
        problems=problems,
    )


def check_installation() -> tuple[Check, ...]:
    """Checks of what `analyze` rests on; nothing heavy is imported."""
    return (_engine(), _gzip(), _import_name(), _remote(), _colour())


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _engine() -> Check:
    there = _there("hyperscan")
    return Check(
        what="matching engine",
        good=True,
        found=f"hyperscan {metadata.version('hyperscan')}" if there else "python (same matches, many times slower)",
        mend="" if there else "pip install hyperscan, where a wheel exists for this platform",
    )


def _gzip() -> Check:
    there = _there("isal")
    return Check(
        what="gzip",
        good=True,
        found=f"isal {metadata.version('isal')}" if there else "zlib (about half as fast)",
        mend="" if there else "pip install isal",
    )


def _import_name() -> Check:
    """Another distribution on PyPI installs an import package of the same name."""
    owners = sorted({*metadata.packages_distributions().get("attribution", ()), *_own()})
    foreign = [o for o in owners if o != "recovery-attribution"]
    return Check(
        what="import name attribution",
        good=not foreign,
        found=", ".join(owners) or "not installed, run from a checkout",
        mend=f"pip uninstall {' '.join(foreign)}: it installs a package of the same name" if foreign else "",
    )


def _own() -> tuple[str, ...]:
    """Our own distribution, which an editable installation does not list among the owners of its package."""
    try:
        return (metadata.distribution("recovery-attribution").name,)
    except metadata.PackageNotFoundError:
        return ()


def _remote() -> Check:
    there = _there("fsspec")
    return Check(
        what="remote addresses",
        good=True,
        found=f"fsspec {metadata.version('fsspec')}" if there else "off",
        mend="" if there else "pip install 'recovery-attribution[remote]'",
    )


def _colour() -> Check:
    import os

    return Check(
        what="colour", good=True, found="off, NO_COLOR is set" if os.environ.get("NO_COLOR") else "on terminals"
    )
