"""One raw line -> messages: carriage returns split, glued messages cut apart, ANSI codes and prefixes off.

Called for the few lines that signatures may match, for heads, tails and traceback frames: never for every line. It
remembers only the last time stamp, so that lines without one can be dated by the line before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attribution.model import Line, Place, Source
from attribution.sources.discover import FileHints
from attribution.sources.heads import Head, Stripper
from attribution.sources.jsonline import JsonLine, parse_json_line
from attribution.sources.stamps import stamp

#: Bytes of one segment that are kept of its beginning and of its end.
KEEP = 16_384
#: Segments of one line that are looked at: the first and last ones, and those between that are no progress bar.
MOST_SEGMENTS = 64
_MOST_BETWEEN = 256
_MOST_PIECES = 64

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = bytes(b for b in range(32) if b not in b"\t\x1b") + b"\x7f"
#: Whoever prints a bar prints one of these; a message in the middle of many bars has none, or is glued to it.
_BAR = re.compile(rb"%\||it/s|s/it|\d+/\d+ \[|ETA|eta|[\xe2][\x96\x94]")
_GLUE_BYTES = (b"slurmstepd", b"srun: ", b"*** ", b"Traceback (", b"[rank", b"[E", b"[F", b"NCCL ", b"Error")

_NCCL = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,120}):(?P<pid>\d{1,8}):(?:\d{1,8}|\[?0x[0-9a-f]+) \[(?:\d+|-1|\(null\))\]", re.ASCII
)
_UCX = re.compile(r"\[(?P<host>[A-Za-z][\w.-]{0,120}):(?P<pid>\d{1,8}):\d{1,8}\] +[\w.]+\.cc?:\d", re.ASCII)
_INNER_RANK = re.compile(r"\[rank[ :=]?(\d{1,7})\]", re.IGNORECASE | re.ASCII)
#: Beginnings of messages that are found glued to the end of something else, most often a progress bar.
_GLUED = re.compile(
    r"slurmstepd(?:-[\w.-]{1,120})?: error: |srun: error: |srun: Job step aborted|srun: Force Terminated"
    r"|\*\*\* (?:JOB|STEP) \d"
    r"|Traceback \(most recent call last\):|\[rank\d{1,7}\]: ?(?:\[[EWIF]|Traceback|[\w.]{0,80}Error|\[rank)"
    r"|\[[EF]\d{3,4} \d\d:\d\d:\d\d|(?<![\w./-])[A-Za-z][\w.-]{1,80}:\d{2,8}:\d{2,8} \[\d+\] (?:NCCL|[\w/]+\.cc)",
    re.ASCII,
)
_GLUE_WORDS = ("slurmstepd", "srun: ", "*** JOB ", "*** STEP ", "Traceback (", "[rank", "[E", "[F", "] NCCL ", ".cc:")
#: What may stand between a line's beginning and its message without being a message.
_ONLY_PREFIX = re.compile(
    # No two alternatives can match the same text, so that a hostile line costs no more than its length.
    r"\s*(?:slurmstepd[\w.-]{0,120}: |srun: |error: |\[\d{4}-[\dT:.-]{5,26}\] |\[[\w ]{1,40}\]:? ?|\d{1,6}: )*\s*$",
    re.ASCII,
)
_EXCEPTION = re.compile(r"[A-Z][A-Za-z0-9]{2,60}?(?:Error|Exception|Interrupt)(?=[A-Z.:a-z ])", re.ASCII)

#: What cannot stand between merged names: words of a message, or a C++ scope.
_FOREIGN = re.compile(r"[^\w.: ]|\w \w| \w+ |::$", re.ASCII)


def unmerge(text: str) -> str | None:
    """The plain head of an exception that several processes wrote into each other, None where there is none.

    >>> unmerge("ImportErrorImportError: : libcudart.so.11.0: cannot open shared object file")
    'ImportError: libcudart.so.11.0: cannot open shared object file'
    """
    beginning = text[:600]
    first = _EXCEPTION.search(beginning)
    if first is None or first.start() > 120:
        return None
    name = first.group()
    end = first.end()
    again = 0
    # Between the names stand only pieces of the module's name and the colons that the others wrote.
    # "KeyError: Caught KeyError in DataLoader worker" is one process's sentence, not two processes' words.
    while (at := beginning.find(name, end)) >= 0 and not _FOREIGN.search(beginning[end:at]):
        if re.search(r"\w ", beginning[end:at]):
            break
        end, again = at + len(name), again + 1
    if not again:
        return None
    rest = text[end:].lstrip(".: ")
    return f"{name}: {rest}" if rest else name


class LineParser:
    """Parses lines of one file.

    Args:
        path: as shown to people.
        source: kind of log.
        hints: what the file's name says; a rank or node in it holds for every line that says nothing else.
        default_year: for stamps without a year, until a stamp with one was seen.
    """

    def __init__(self, path: str, source: Source, *, hints: FileHints | None = None, default_year: int = 1970) -> None:
        self.path, self.source = path, source
        self.hints = hints or FileHints()
        self._stripper = Stripper(default_year, self.hints.boot_s)

    @property
    def last_time_s(self) -> float | None:
        """Time of the last stamped line that was parsed."""
        return self._stripper.near_s

    @last_time_s.setter
    def last_time_s(self, value: float | None) -> None:
        self._stripper.near_s = value

    def parse(self, raw: bytes, line_no: int, offset: int, *, remember: bool = True) -> list[Line]:
        """Messages of one raw line (without its line end), in the order printed. Never raises.

        Several, where the line has carriage returns, glued messages, or is JSON with an exception in it; a line whose
        words several processes wrote into each other is given as it stands and, behind that, unmerged.

        Args:
            raw: the line.
            line_no: its 1-based number.
            offset: offset of its first byte; also that of every message of it.
            remember: False leaves the remembered time alone, for lines that are looked at out of order.
        """
        before = self._stripper.near_s
        out: list[Line] = []
        for segment in _segments(raw):
            for text, raw_text, head in self._messages(segment):
                line = self._line(text, raw_text, head, line_no, offset)
                out.append(line)
                if (plain := unmerge(line.text)) is not None:
                    out.append(replace(line, text=plain))
        if not remember:
            self._stripper.near_s = before
        return out

    def prefixes(self, raw: bytes) -> tuple[str, ...]:
        """Names of the prefix shapes in front of a line, outermost first."""
        segments = _segments(raw)
        head = Head()
        if segments:
            self._stripper.strip(segments[0], head)
        return head.seen

    def _messages(self, segment: str) -> Iterator[tuple[str, str, Head]]:
        """(message, message as printed, its head) of one segment."""
        head = Head()
        text = self._stripper.strip(segment, head)
        if text.startswith("{") and (row := parse_json_line(text, self._stripper.default_year)) is not None:
            for message in row.messages:
                yield from self._json_message(message, row, head)
            return
        cuts = _cuts(text)
        if not cuts:
            yield text, segment, head
            return
        lead = segment[: len(segment) - len(text)] if segment.endswith(text) else ""
        for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
            piece = text[start:end]
            own = Head() if start == 0 or piece.startswith(("slurmstepd", "srun", "***")) else replace(head, seen=())
            if start == 0:
                yield piece.rstrip(), lead + piece, head
            else:
                yield self._stripper.strip(piece, own), piece, own

    def _json_message(self, message: str, row: JsonLine, head: Head) -> Iterator[tuple[str, str, Head]]:
        inner = replace(head)
        text = self._stripper.strip(ANSI.sub("", message[: 2 * KEEP]), inner)
        if row.time_s is not None and inner.time_s is None:
            inner.time_s = row.time_s
        inner.rank = row.rank if inner.rank is None else inner.rank
        inner.local_rank = row.local_rank if inner.local_rank is None else inner.local_rank
        inner.host = inner.host or row.host
        inner.pid = row.pid if inner.pid is None else inner.pid
        yield text, message[:KEEP], inner

    def _line(self, text: str, raw: str, head: Head, line_no: int, offset: int) -> Line:
        host, pid, rank, hints = head.host, head.pid, head.rank, self.hints
        if "] " in text[:160] and (emitter := _NCCL.match(text) or _UCX.match(text)) is not None:
            host, pid = emitter["host"], int(emitter["pid"])
        if rank is None and text[:5].lower() == "[rank" and (inner := _INNER_RANK.match(text)) is not None:
            rank = int(inner.group(1))
        time_s = head.time_s
        if time_s is None:
            time_s = stamp(text, self._stripper.default_year, self._stripper.near_s)
        if time_s is not None:
            self._stripper.near_s = time_s
        place = Place(
            path=self.path,
            line=line_no,
            offset=offset,
            time_s=self._stripper.near_s,
            host=host or hints.node,
            rank=hints.rank if rank is None else rank,
            local_rank=hints.local_rank if head.local_rank is None else head.local_rank,
            task=hints.task if head.task is None else head.task,
            pid=pid,
            source=self.source,
        )
        return Line(place=place, text=text, raw=raw[: 2 * KEEP + 8], count=head.count)


def _cuts(text: str) -> tuple[int, ...]:
    """Positions, other than the beginning, at which another message begins that was glued to this one."""
    if not any(word in text for word in _GLUE_WORDS):
        return ()
    cuts: list[int] = []
    start = 0
    for m in _GLUED.finditer(text):
        # A prefix in front of a message is no message of its own.
        if m.start() > start and not _ONLY_PREFIX.match(text[start : m.start()]):
            cuts.append(m.start())
            start = m.start()
            if len(cuts) >= _MOST_PIECES:
                break
    return tuple(cuts)


def _segments(raw: bytes) -> list[str]:
    """Segments between carriage returns, decoded, without ANSI and control codes, bounded.

    Of very many segments the first and last ones stay, and those between that are no progress bar.
    """
    if b"\r" not in raw:
        return [_decoded(raw)]
    pieces = [p for p in raw.split(b"\r") if p.strip()]
    if len(pieces) > MOST_SEGMENTS:
        half = MOST_SEGMENTS // 2
        between = [p for p in pieces[half:-half] if not _BAR.search(p) or any(word in p for word in _GLUE_BYTES)]
        pieces = [*pieces[:half], *between[:_MOST_BETWEEN], *pieces[-half:]]
    return [_decoded(p) for p in pieces]


def _decoded(piece: bytes) -> str:
    # JSON is kept whole where it can be: half an object tells nothing.
    limit = 4 << 20 if piece[:1] == b"{" else 2 * KEEP
    if len(piece) > limit:
        piece = piece.strip(b"\0")
    if len(piece) > limit:
        piece = piece[:KEEP] + b" ... " + piece[-KEEP:]
    text = piece.translate(None, _CONTROL).decode("utf-8", "replace")
    return ANSI.sub("", text) if "\x1b" in text else text
