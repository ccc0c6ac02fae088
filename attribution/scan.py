"""One pass over one file: lines that signatures recognise, line shapes for mining, head and tail.

The pass costs what the engine costs on bytes that match nothing; Python runs per *matching* line only. Everything kept
is bounded: matches fold after `KEEP_PER_KEY` repetitions of one signature by one rank, head and tail are windows of
bytes, frames above an exception line are capped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from attribution.match import Candidate, Matcher
from attribution.match.shapes import FileShapes, ShapeMatcher
from attribution.model import Line, Match, Place, ProgressPoint, Role
from attribution.progress import point
from attribution.sources.blocks import Block, ReadReport, block_of, read_blocks
from attribution.sources.discover import SourceFile
from attribution.sources.prefix import LineParser

#: Repetitions of one (signature, rank, host) in one segment that are kept one by one; the rest only count.
KEEP_PER_KEY = 24
#: Matches kept of one file segment, whatever their kinds.
KEEP_PER_SEGMENT = 20_000
#: Attempts in one file whose lines are counted apart; those of later ones count for the last attempt.
MOST_CUTS = 256
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 48 * 1024
TAIL_LINES = 60
#: Bytes before an exception line in which its traceback frames are looked for.
FRAME_BYTES = 16 * 1024
FRAME_LINES = 120
#: Lines of a head that are looked at, and what a line must hold to tell of its job (see `sources.identity`).
HEAD_LINES = 1_000
_IDENTITY = re.compile(
    rb"SLURM_|_JOBID|WORLD_SIZE|[Ww]orld[ _]?[Ss]ize|\*\*\* (?:JOB|STEP)|StepId=|srun: |sbatch: |Subject: Job|nranks |MEMBER: "
    rb"|[Nn]umber of processes|[Jj]ob ?[Ii][Dd]"
)
MAX_TEXT = 2_000

if TYPE_CHECKING:
    from attribution.shapes import ShapeCounts

_FRAME = re.compile(r'^\s*(?:File "|[|+] )|^\s{2,}\S')
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(slots=True)
class Segment:
    """A stretch of one file that belongs to one attempt, or to a part of it."""

    file: SourceFile
    first_line: int
    first_offset: int
    matches: list[Match] = field(default_factory=list)
    points: list[ProgressPoint] = field(default_factory=list)
    n_points: int = 0
    head: list[Line] = field(default_factory=list)
    tail: list[Line] = field(default_factory=list)
    n_lines: int = 0
    size_bytes: int = 0
    shapes: ShapeCounts | None = None
    opened_by: Match | None = None


@dataclass(slots=True)
class FileScan:
    """What one pass over one file saw, cut into segments at job starts."""

    file: SourceFile
    segments: list[Segment]
    report: ReadReport


class _Folder:
    """Folds repetitions: the first `KEEP_PER_KEY` matches of a key stay, later ones count on the last kept one."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int | None, str | None], int] = {}
        self._last: dict[tuple[str, int | None, str | None], int] = {}
        self.matches: list[Match] = []

    def add(self, match: Match) -> None:
        """Keep `match`, or count it on an earlier one."""
        key = (match.signature, match.place.rank, match.place.host)
        kept = self._kept.get(key, 0)
        if kept < KEEP_PER_KEY and len(self.matches) < KEEP_PER_SEGMENT:
            self._kept[key] = kept + 1
            self._last[key] = len(self.matches)
            self.matches.append(match)
        elif key in self._last:
            at = self._last[key]
            old = self.matches[at]
            self.matches[at] = replace(old, count=old.count + match.count, last=match.place)


class _Context:
    """Bytes before the current block, so that a traceback that spans two blocks keeps its frames."""

    def __init__(self) -> None:
        self.carry = b""

    def before(self, block: Block, start: int) -> bytes:
        """Up to `FRAME_BYTES` that end where the line at `start` of the block begins."""
        low = max(0, start - FRAME_BYTES)
        own = bytes(block.data[low:start])
        missing = FRAME_BYTES - len(own)
        return (self.carry[-missing:] + own) if missing > 0 and low == 0 else own

    def advance(self, block: Block) -> None:
        """Remember the end of `block` before its buffer is reused."""
        size = len(block.data)
        end = bytes(block.data[max(0, size - FRAME_BYTES) : size])
        self.carry = (self.carry + end)[-FRAME_BYTES:]


def best(matches: list[Match]) -> list[Match]:
    """One match speaks for a line: the most specific; marks and fields of the others that agree are added to it.

    A noise match that is at least as specific silences the line. Shadow matches are kept apart and decide nothing.
    """
    if len(matches) < 2:
        return matches
    shadows = [m for m in matches if m.shadow]
    live = [m for m in matches if not m.shadow]
    if not live:
        return shadows
    top = live[0]
    noise = next((m for m in live if m.role is Role.NOISE), None)
    if noise is not None and noise.specificity >= top.specificity:
        return [noise, *shadows]
    if "step" in top.marks:
        return [top, *shadows]  # a progress line is whole in itself: a vaguer dialect adds nothing
    marks = top.marks.union(*(m.marks for m in live if m.role is not Role.NOISE))
    fields = {k: v for m in reversed(live) if m.role is not Role.NOISE for k, v in m.fields.items()}
    if marks == top.marks and fields == top.fields:
        return [top, *shadows]
    return [replace(top, marks=marks, fields=fields), *shadows]


def frames_above(raw: bytes, line: Line, parser: LineParser) -> tuple[str, ...]:
    """Traceback frames that stand above an exception line and come from the same rank, outermost first.

    Python indents frames and begins them with ``File "``; the walk goes up to the traceback's head, skips lines of
    other ranks and stops at the first line of the same rank that is no frame.
    """
    found: list[str] = []
    lines = raw.split(b"\n")[-FRAME_LINES - 1 : -1] if raw.endswith(b"\n") else raw.split(b"\n")[-FRAME_LINES:]
    for piece in reversed(lines):
        parsed = parser.parse(piece, 0, 0, remember=False)
        if not parsed:
            continue
        last = parsed[-1]
        if last.place.rank != line.place.rank or last.place.local_rank != line.place.local_rank:
            continue
        if _TRACEBACK in last.text:
            break
        if _FRAME.match(last.text):
            found.append(last.text.rstrip()[:300])
        elif found:
            break
    return tuple(reversed(found))


class Scanner:
    """Scans files with one rule set. Not thread-safe: the engine's scratch space belongs to it."""

    def __init__(self, matcher: Matcher, *, mine: bool = True) -> None:
        self.matcher = matcher
        self.mine = mine
        self.shapes = ShapeMatcher(matcher)
        self._wants_frames = matcher.ruleset.wants_frames

    def scan(self, file: SourceFile, on_bytes: Callable[[int], None] | None = None) -> FileScan:
        """Read `file` once. What could not be read stands in the returned `report`, never in an exception.

        Args:
            file: the file to read.
            on_bytes: called with the number of decompressed bytes of each block, for progress bars.
        """
        report = ReadReport()
        state = FileState(self, file)
        for block in read_blocks(file, report=report):
            state.feed(block)
            if on_bytes is not None:
                on_bytes(len(block.data))
        return FileScan(file=file, segments=state.segments(), report=report)

    def line_matches(self, line: Line, candidates: Iterable[int], frames: tuple[str, ...]) -> list[Match]:
        """Verified matches of one line, the one that speaks first."""
        found = best(self.matcher.verify(line, tuple(candidates), frames))
        return [replace(m, text=m.text[:MAX_TEXT], frames=frames) if frames else m for m in found]


class FileState:
    """The running state of one scan: `feed` blocks in order and ask for `segments` at any time.

    How a file is cut into blocks changes nothing in the result, so a followed file ends with the same matches as a
    finished one.
    """

    def __init__(self, scanner: Scanner, file: SourceFile) -> None:
        self.scanner, self.file = scanner, file
        self.parser = LineParser(file.display, file.source, hints=file.hints, default_year=file.default_year)
        self.sampler = scanner.matcher.sampler(file.source)
        self.context = _Context()
        self.folder = _Folder()
        self.shapes = FileShapes(scanner.shapes, file.display, file.source)
        self.current = Segment(file=file, first_line=1, first_offset=0)
        self.done: list[Segment] = []
        self.block = block_of(b"", 0, 1)
        self.head = b""
        self.tail = b""
        self.tail_line = 1
        self.next_line = 1
        self.next_offset = 0

    def feed(self, block: Block) -> None:
        """Match one block and count its shapes."""
        if len(self.head) < HEAD_BYTES:
            self.head += bytes(block.data[: HEAD_BYTES - len(self.head)])
        self.block = block
        for found in self.shapes.candidates(block, self.sampler):
            self._candidate(block, found.candidate, found.line)
        self._remember_tail(block)
        self.context.advance(block)
        self.next_line = block.next_line
        self.next_offset = block.offset + len(block.data)

    def _candidate(self, block: Block, candidate: Candidate, line_no: int) -> None:
        raw = bytes(block.data[candidate.start : candidate.end])
        above: bytes | None = None
        for line in self.parser.parse(raw, line_no, block.offset + candidate.start):
            frames: tuple[str, ...] = ()
            if self.scanner._wants_frames.intersection(candidate.signatures):
                above = self.context.before(block, candidate.start) if above is None else above
                frames = frames_above(above, line, self.parser)
            for match in self.scanner.line_matches(line, candidate.signatures, frames):
                times = candidate.weight * line.count
                self._take(match if times == 1 else replace(match, count=times))

    def _take(self, match: Match) -> None:
        if "job_start" in match.marks and self._worth_cutting(match):
            self._cut(match)
        if "step" in match.marks:
            self.current.points.append(point(match))
            self.current.n_points += match.count
        elif match.role is not Role.NOISE or "handled" in match.marks:
            self.folder.add(match)

    def _worth_cutting(self, match: Match) -> bool:
        """A job start opens a new segment only after something ended, or when the job id changed."""
        ended = any(m.role in (Role.ROOT, Role.TEARDOWN) or "completed" in m.marks for m in self.folder.matches)
        job = match.fields.get("job_id")
        opened = self.current.opened_by
        other_job = bool(job and opened and opened.fields.get("job_id") not in (None, job))
        return other_job or (ended and (self.current.n_points > 0 or opened is not None))

    def _cut(self, match: Match) -> None:
        where = match.place
        start = where.offset - self.block.offset
        closed = self._closed(where.line, where.offset)
        if self.scanner.mine and len(self.done) < MOST_CUTS:
            closed.shapes = self.shapes.cut(self.block, start)
        self.done.append(closed)
        self.current = Segment(file=self.file, first_line=where.line, first_offset=where.offset, opened_by=match)
        self.head = bytes(self.block.data[start : start + HEAD_BYTES])
        self.folder = _Folder()

    def _closed(self, next_line: int, next_offset: int) -> Segment:
        """The current segment as it stands, up to the given line."""
        return replace(
            self.current,
            matches=list(self.folder.matches),
            points=list(self.current.points),
            head=self._head(next_line),
            n_lines=next_line - self.current.first_line,
            size_bytes=next_offset - self.current.first_offset,
        )

    def _head(self, until: int) -> list[Line]:
        """First lines of the current segment, those before line `until`."""
        first = self.current
        lines = _lines(self.parser, self.head, first.first_line, first.first_offset, newest=False)
        return [line for line in lines if line.place.line < until]

    def _last_progress(self) -> list[ProgressPoint]:
        """Progress lines at the file's very end that sampling left out: the last step must not be missed."""
        newest = self.current.points[-1].place.offset if self.current.points else -1
        out: list[ProgressPoint] = []
        for skipped in self.sampler.recent:
            if skipped.offset <= newest:
                continue
            for line in self.parser.parse(skipped.raw, skipped.line, skipped.offset):
                found = self.scanner.line_matches(line, skipped.signatures, ())
                out.extend(point(m) for m in found if "step" in m.marks)
        return out

    def _remember_tail(self, block: Block) -> None:
        keep = bytes(block.data[-TAIL_BYTES:])
        self.tail = (self.tail + keep)[-TAIL_BYTES:] if len(keep) < TAIL_BYTES else keep

    def segments(self) -> list[Segment]:
        """What was seen so far, cut into segments; the state can be fed further."""
        remembered = self.parser.last_time_s  # a look at head and end must not date the lines that follow
        last = self._closed(self.next_line, self.next_offset)
        last.points.extend(self._last_progress())
        first_line = self.next_line - self.tail.count(b"\n") - (0 if self.tail.endswith(b"\n") or not self.tail else 1)
        tail = _lines(self.parser, self.tail, first_line, self.next_offset - len(self.tail), newest=True)
        last.tail = [line for line in tail if line.place.line >= last.first_line]
        if self.scanner.mine:
            last.shapes = self.shapes.counter.counts()
        out = [*self.done, last]
        self.parser.last_time_s = remembered
        return out


def _lines(parser: LineParser, data: bytes, first_line: int, offset: int, *, newest: bool) -> list[Line]:
    """Parsed lines of a window of bytes; of a window that begins inside a line the first piece is left out."""
    pieces: list[tuple[int, int, bytes]] = []
    at = offset
    for number, piece in enumerate(data.split(b"\n")):
        pieces.append((first_line + number, at, piece))
        at += len(piece) + 1
    if newest:
        pieces = (pieces[1:] if offset > 0 else pieces)[-TAIL_LINES - 1 :]
    out: list[Line] = []
    for line_no, where, piece in pieces[: HEAD_LINES if not newest else None]:
        if (newest and piece.strip()) or (not newest and _IDENTITY.search(piece)):
            out.extend(parser.parse(piece[: MAX_TEXT * 8], line_no, where, remember=newest))
    return out


def last_place(segment: Segment) -> Place | None:
    """Place of the last line that the segment's tail shows, if any."""
    return segment.tail[-1].place if segment.tail else None
