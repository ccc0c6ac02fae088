"""One raw line -> messages: carriage returns split, ANSI codes and prefixes off, rank, host and time read from them.

Called for the few lines that signatures may match, for heads, tails and traceback frames: never for every line. It
remembers only the last time stamp, so that lines without one can be dated by the line before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from attribution.model import Line, Place, Source
from attribution.sources.discover import FileHints
from attribution.sources.stamps import stamp

#: Characters of one segment that are kept: its beginning and its end.
KEEP = 16_384
#: Segments of one line that are looked at: the first and the last ones of a progress bar.
MOST_SEGMENTS = 64
_MAX_PREFIXES = 8

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_RANK = re.compile(r"^\s*\[rank[ :]?(\d{1,7})\]:? ?", re.IGNORECASE)
_LOCAL = re.compile(r"^\[([A-Za-z_]+?)(\d{1,4})\]: ?")
_TASK = re.compile(r"^ *(\d{1,6}): ?(?!\d\d[:.])")
_MPI = re.compile(r"^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4})?\[\d+,(\d+)\](?:\[[^\]]*\])?<std(?:out|err|diag)>: ?")
_RAY = re.compile(r"^\((?P<who>[\w.:<>\[\], -]{1,120}?)(?: |, )?(?:pid=(?P<pid>\d+))(?:, ip=(?P<ip>[\d.]+))?\) ?")
_RAY_SYSTEM = re.compile(r"^\((?:raylet|autoscaler|gcs_server|scheduler)[^)]*\) ?")
_REPEATED = re.compile(r" ?\[repeated (\d+)x across cluster\](?: \(Ray deduplicates.*)?\s*$")
_CRI = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?")
_COMPOSE = re.compile(r"^[\w.-]+[-_]\d+ +\| ")
_SYSLOG = re.compile(r"^(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? (?P<host>[\w.-]+) (?P<who>kernel|[\w./@-]+(?:\[\d+\])?): ")
_SYSLOG_ISO = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)? (?P<host>[\w.-]+) (?P<who>kernel|[\w./@-]+\[\d+\]): ")
_DMESG = re.compile(r"^(?:<\d{1,3}>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?")
_CTIME = re.compile(r"^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \d{4}\] ?")
_HOST = re.compile(r"^(?P<host>(?:(?:gpu|node|nid|cn|dgx|compute|worker|host|hgx|nvl)[\w-]*\d[\w-]*(?:\.[\w.-]+)?|\d{1,3}(?:\.\d{1,3}){3})): ")
_TIME = re.compile(
    r"^ ?(?:\[|\()?(?:19|20)\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d|UTC|[A-Z]{3,4}(?= ))(?=[\] ]))?"
    r"(?:\]|\))?(?: ?[-:|,])? ?"
)
_LEVEL = (
    # 2024-05-01 12:00:00,123 - name - ERROR - text      12:00:00 | ERROR | mod:func:12 - text
    re.compile(r"^[\w.<>/-]{1,80}(?::\w+:\d+)? ?[-|] ?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL) ?[-|:] ?"),
    re.compile(r"^(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|SUCCESS) +[|-] +(?:[\w.<>/-]{1,80}:[\w<>]+:\d+ - )?"),
    # [INFO] [file.py:12:func] text     [ERROR] text     INFO file.py:12 text
    re.compile(r"^\[(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)\]:? ?(?:\[[\w./-]{1,80}:\d+(?::\w+)?\] ?)?(?:\[(?:[Rr]ank|RANK)[ :]?\d+\] ?)?"),
    re.compile(r"^(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL):[\w.]{1,80}:(?! )"),
    re.compile(r"^(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL) +(?:\d\d-\d\d \d\d:\d\d:\d\d )?\[?[\w./-]{1,80}\.py:\d+\]? ?:? ?"),
)
_NCCL = re.compile(r"^(?P<host>[A-Za-z][\w.-]{0,80}):(?P<pid>\d{1,8}):\d{1,8} \[(?P<dev>\d+|-1|\(null\))\]")
_INNER_RANK = re.compile(r"^\[(?:[Rr]ank|RANK)[ :=]?(\d{1,7})\]")
#: Beginnings of messages that are found glued to the end of something else, most often a progress bar.
_GLUED = re.compile(
    r"(?=slurmstepd(?:-[\w.-]+)?: error: |srun: error: |srun: Job step aborted|(?<!error: )\*\*\* (?:JOB|STEP) \d"
    r"|Traceback \(most recent call last\):|\[rank\d{1,7}\]: ?(?:\[[EWIF]|Traceback|\w+Error)"
    r"|\[[EF]\d{3,4} \d\d:\d\d:\d\d|[A-Za-z][\w.-]{2,80}:\d{2,8}:\d{2,8} \[\d+\] (?:NCCL|[\w/]+\.cc))"
)
_EXCEPTION = re.compile(r"([A-Z]\w{2,60}?(?:Error|Exception|Interrupt))")


def unmerge(text: str) -> str | None:
    """The plain head of an exception that several processes wrote into each other, None where there is none.

    >>> unmerge("ImportErrorImportError: : libcudart.so.11.0: cannot open shared object file")
    'ImportError: libcudart.so.11.0: cannot open shared object file'
    """
    first = _EXCEPTION.search(text[:200])
    if first is None:
        return None
    name = first.group(1)
    found = [m.end() for m in re.finditer(re.escape(name), text[:600])]
    if len(found) < 2 or re.search(r"[^\w.: ]", text[: found[-1]]):
        return None
    rest = text[found[-1] :].lstrip(".: ")
    return f"{name}: {rest}"


class _Head:
    """What the prefixes of one segment said."""

    __slots__ = ("count", "host", "local_rank", "pid", "rank", "task", "time_s")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.task: int | None = None
        self.host: str | None = None
        self.pid: int | None = None
        self.time_s: float | None = None
        self.count = 1


class LineParser:
    """Parses lines of one file.

    Args:
        path: as shown to people.
        source: kind of log.
        hints: what the file's name says; a rank or node in it holds for every line that says nothing else.
        default_year: for stamps without a year.
    """

    def __init__(self, path: str, source: Source, *, hints: FileHints | None = None, default_year: int = 1970) -> None:
        self.path, self.source = path, source
        self.hints = hints or FileHints()
        self.default_year = default_year
        self.last_time_s: float | None = None

    def parse(self, raw: bytes, line_no: int, offset: int, *, remember: bool = True) -> list[Line]:
        """Messages of one raw line (without its line end), in the order printed. Never raises.

        `remember` False leaves the remembered time alone, for lines that are looked at out of order.
        """
        out: list[Line] = []
        for segment in _segments(raw):
            for piece in self._pieces(segment):
                line = self._line(piece, line_no, offset, remember)
                out.append(line)
                if (plain := unmerge(line.text)) is not None:
                    out.append(replace(line, text=plain))
        return out

    def _pieces(self, segment: str) -> Iterator[str]:
        """A segment, cut where another message is glued to it; JSON lines give their message lines."""
        text = ANSI.sub("", segment)
        if text.startswith("{") and text.rstrip().endswith("}") and (lines := _json_lines(text)):
            yield from lines
            return
        cuts = [m.start() for m in _GLUED.finditer(text)]
        start = 0
        for cut in cuts:
            # A prefix in front of the message is no message of its own.
            if cut > start and _strip(text[start:cut], _Head(), self.default_year).strip():
                yield text[start:cut]
                start = cut
        yield text[start:]

    def _line(self, raw: str, line_no: int, offset: int, remember: bool) -> Line:
        head = _Head()
        text = _strip(raw, head, self.default_year)
        if (nccl := _NCCL.match(text)) is not None:
            head.host, head.pid = nccl["host"], int(nccl["pid"])
        if head.rank is None and (inner := _INNER_RANK.match(text)) is not None:
            head.rank = int(inner.group(1))
        time_s = head.time_s if head.time_s is not None else stamp(text, self.default_year)
        if time_s is not None and remember:
            self.last_time_s = time_s
        hints = self.hints
        place = Place(
            path=self.path,
            line=line_no,
            offset=offset,
            time_s=time_s if time_s is not None else self.last_time_s,
            host=head.host or hints.node,
            rank=head.rank if head.rank is not None else hints.rank,
            local_rank=head.local_rank if head.local_rank is not None else hints.local_rank,
            task=head.task if head.task is not None else hints.task,
            pid=head.pid,
            source=self.source,
        )
        return Line(place=place, text=text, raw=raw[:KEEP])


def _segments(raw: bytes) -> list[str]:
    """Segments between carriage returns, decoded and bounded; of very many only the first and last ones."""
    if b"\r" in raw:
        pieces = [p for p in raw.split(b"\r") if p.strip()]
        if len(pieces) > MOST_SEGMENTS:
            half = MOST_SEGMENTS // 2
            pieces = pieces[:half] + pieces[-half:]
    else:
        pieces = [raw]
    return [_CONTROL.sub("", _bounded(p).decode("utf-8", "replace")) if b"\x1b" not in p else _bounded(p).decode("utf-8", "replace") for p in pieces]


def _bounded(piece: bytes) -> bytes:
    if len(piece) <= 2 * KEEP:
        return piece
    return piece[:KEEP] + b" ... " + piece[-KEEP:]


def _strip(text: str, head: _Head, default_year: int) -> str:
    """Take prefixes off until none is left, noting what they say."""
    for _ in range(_MAX_PREFIXES):
        rest = _strip_one(text, head, default_year)
        if rest is None:
            break
        text = rest
    if (repeated := _REPEATED.search(text)) is not None:
        head.count = min(int(repeated.group(1)[:9]), 10**9)
        text = text[: repeated.start()]
    return text.rstrip()


def _strip_one(text: str, head: _Head, default_year: int) -> str | None:
    """`text` without its first prefix, None where it has none."""
    first = text[:1]
    if first in "[ ":
        if (m := _RANK.match(text)) is not None:
            head.rank = int(m.group(1))
            return text[m.end() :]
        if (m := _LOCAL.match(text)) is not None:
            head.local_rank = int(m.group(2))
            return text[m.end() :]
        if (m := _MPI.match(text)) is not None:
            head.rank = int(m.group(1))
            return text[m.end() :]
        if (m := _DMESG.match(text)) is not None:
            return text[m.end() :]
        if (m := _CTIME.match(text)) is not None:
            head.time_s = stamp(m.group(), default_year)
            return text[m.end() :]
    if first == "(":
        if (m := _RAY.match(text)) is not None:
            head.pid, head.host = int(m["pid"]), m["ip"] or head.host
            return text[m.end() :]
        if (m := _RAY_SYSTEM.match(text)) is not None:
            return text[m.end() :]
    return _strip_other(text, head, default_year)


def _strip_other(text: str, head: _Head, default_year: int) -> str | None:
    for pattern in (_SYSLOG, _SYSLOG_ISO):
        if (m := pattern.match(text)) is not None:
            head.time_s, head.host = stamp(m.group(), default_year), m["host"]
            return text[m.end() :]
    if (m := _TASK.match(text)) is not None and head.task is None:
        head.task = int(m.group(1))
        return text[m.end() :]
    for pattern in (_CRI, _TIME):
        if (m := pattern.match(text)) is not None and m.end() > 0:
            head.time_s = stamp(m.group(), default_year)
            return text[m.end() :]
    if (m := _HOST.match(text)) is not None and head.host is None:
        head.host = m["host"]
        return text[m.end() :]
    if (m := _COMPOSE.match(text)) is not None:
        return text[m.end() :]
    for pattern in _LEVEL:
        if (m := pattern.match(text)) is not None:
            return text[m.end() :]
    return None


_MESSAGE_KEYS = ("message", "msg", "text", "log", "event")
_TRACE_KEYS = ("exc_info", "exception", "traceback", "error", "stack", "stack_trace", "err")


def _json_lines(text: str) -> list[str]:
    """Message lines of a JSON log line, with rank, host and time put in front as prefixes; empty for other JSON."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(row, dict):
        return []
    nested = [v for v in row.values() if isinstance(v, dict)]
    messages = [str(row[k]) for k in (*_MESSAGE_KEYS, *_TRACE_KEYS) if isinstance(row.get(k), str)]
    messages += [str(n[k]) for n in nested for k in (*_MESSAGE_KEYS, *_TRACE_KEYS) if isinstance(n.get(k), str)]
    if not messages:
        return []
    front = ""
    when = next((row[k] for k in ("time", "ts", "timestamp", "asctime", "@timestamp") if isinstance(row.get(k), str)), None)
    if when is not None and re.match(r"(?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d", when):
        front += f"{when.split('.')[0][:19]} "
    rank = next((row[k] for k in ("rank", "global_rank") if isinstance(row.get(k), int | str)), None)
    if rank is not None and str(rank).isdigit():
        front += f"[rank{rank}]: "
    return [front + line for message in messages for line in message.split("\n")[:200] if line.strip()]
