"""Reads a log as newline-aligned blocks of one reused buffer, whatever its compression and size.

`read_blocks` never raises for a log that cannot be read to its end: what was read stays, and the `ReadReport` says what
was lost. Reading costs what ``readinto`` costs: there is no Python work per line here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import numpy as np

from attribution.sources.streams import (
    HEAD_BYTES,
    DamagedError,
    Decompressed,
    Peeked,
    Readable,
    Window,
    compression_of,
    open_raw,
    why_binary,
)

if TYPE_CHECKING:
    from attribution.sources.discover import SourceFile

#: Fits the second-level cache: larger blocks were measured to be slower.
BLOCK_BYTES = 1 << 20
#: A longer line is handed out in pieces; its line number and offsets stay exact.
LONGEST_LINE = 8 << 20


@dataclass(slots=True)
class ReadReport:
    """What happened while one log was read. `problems` are sentences for a person.

    `bytes_read` and `lines` count decompressed bytes and LF-ended lines; `growing` says that the file grew meanwhile.
    """

    bytes_read: int = 0
    lines: int = 0
    growing: bool = False
    compression: str | None = None
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """Whole lines. `data` is only valid until the next block is asked for.

    `offset` is the byte offset of its first byte in the decompressed file, `first_line` its 1-based number. Only a line
    of more than `LONGEST_LINE` bytes goes over several blocks, which then begin within it.
    """

    data: memoryview | bytes
    offset: int
    first_line: int
    newlines: int
    #: What `data` is a view of, from its first byte on: it can count and search without a copy.
    buffer: bytes | bytearray

    @property
    def size(self) -> int:
        """Bytes of the block."""
        return len(self.data)

    @property
    def next_line(self) -> int:
        """Number of the line that begins behind the block."""
        return self.first_line + self.newlines

    @property
    def next_offset(self) -> int:
        """Offset of the first byte behind the block."""
        return self.offset + len(self.data)

    def count_lines(self, start: int, end: int) -> int:
        """Line ends between two positions of the block."""
        return self.buffer.count(b"\n", start, end)


def block_of(data: bytes, offset: int, first_line: int) -> Block:
    """A block of bytes that are already in memory."""
    return Block(data=data, offset=offset, first_line=first_line, newlines=data.count(b"\n"), buffer=data)


def blocks_of(
    stream: Readable, report: ReadReport, *, name: str = "", block_bytes: int = BLOCK_BYTES, offset: int = 0
) -> Iterator[Block]:
    """Newline-aligned blocks of a stream. Damage ends the stream; what came before it is kept and reported."""
    buffer = bytearray(max(block_bytes, 1))
    filled, line = 0, 1
    while True:
        if filled == len(buffer):
            # A fresh buffer, since a caller may still hold a view of the old one.
            buffer = buffer + bytes(len(buffer))
        view = memoryview(buffer)
        n = _read(stream, view[filled:], report, name)
        if not n:
            break
        report.bytes_read += n
        end = buffer.rfind(b"\n", filled, filled + n) + 1
        filled += n
        if end == 0:
            if filled < LONGEST_LINE:
                continue
            end = filled
        newlines = int(np.count_nonzero(np.frombuffer(view[:end], dtype=np.uint8) == 10))
        yield Block(data=view[:end], offset=offset, first_line=line, newlines=newlines, buffer=buffer)
        offset += end
        line += newlines
        rest = buffer[end:filled]
        filled = len(rest)
        if len(buffer) > block_bytes and filled < block_bytes:
            buffer = bytearray(max(block_bytes, 1))
        buffer[:filled] = rest
    if filled:
        yield block_of(bytes(buffer[:filled]), offset, line)
        line += buffer.count(b"\n", 0, filled)
    report.lines = line - 1


def _read(stream: Readable, into: memoryview, report: ReadReport, name: str) -> int:
    try:
        return stream.readinto(into) or 0
    except (DamagedError, OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        report.problems.append(f"{name}: read up to byte {report.bytes_read}, then: {why}")
        return 0


def read_blocks(
    file: SourceFile,
    *,
    report: ReadReport | None = None,
    block_bytes: int = BLOCK_BYTES,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[Block]:
    """Blocks of one log: local, remote, or standard input, plain or compressed as its first bytes say.

    Args:
        file: the log.
        report: filled while reading: bytes, lines, and what could not be read.
        block_bytes: size of the buffer; blocks are as long unless a line is longer.
        start: first byte of a range of a plain local file. A line belongs to the range that holds its first byte.
        stop: end of the range, None for the end of the file. Line numbers count from the range's own first line.
            A compressed log cannot be cut: it belongs whole to the range that begins at 0, other ranges are empty.
    """
    report = ReadReport() if report is None else report
    name = file.display
    if file.path == "-":
        yield from _from_stream(file.stream or sys.stdin.buffer, report, name, block_bytes)
        return
    try:
        raw = open_raw(file.path)
    except (OSError, ValueError) as error:
        report.problems.append(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    with raw:
        if "://" in file.path or not raw.seekable():
            yield from _from_stream(raw, report, name, block_bytes)
        else:
            yield from _from_file(raw, report, name, block_bytes, start, stop)


def _from_stream(raw: IO[bytes], report: ReadReport, name: str, block_bytes: int) -> Iterator[Block]:
    try:
        peeked = Peeked(raw)
        stream = _opened(peeked, peeked.head, report, name)
    except (OSError, ValueError, DamagedError) as error:
        report.problems.append(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    yield from blocks_of(stream, report, name=name, block_bytes=block_bytes)


def _opened(raw: Readable, head: bytes, report: ReadReport, name: str) -> Readable:
    """`raw`, decompressed where its head says so; a binary one reads as empty and is reported."""
    report.compression = compression_of(head)
    if report.compression is not None:
        peeked = Peeked(Decompressed(raw, report.compression))
        raw, head = peeked, peeked.head
    why = why_binary(head)
    if why is None:
        return raw
    report.problems.append(f"{name}: skipped: {why}")
    return _Nothing()


class _Nothing:
    def readinto(self, buffer: memoryview, /) -> int | None:
        return 0


def _from_file(
    raw: IO[bytes], report: ReadReport, name: str, block_bytes: int, start: int, stop: int | None
) -> Iterator[Block]:
    try:
        before = os.fstat(raw.fileno()).st_size
        head = raw.read(HEAD_BYTES)
        raw.seek(0)
        compression = compression_of(head)
        if compression is not None and start > 0:
            return
        stream: Readable = raw if start > 0 else _opened(raw, head, report, name)  # type: ignore[arg-type,assignment]
        offset = 0
        if compression is None and (start > 0 or stop is not None) and not isinstance(stream, _Nothing):
            window = Window(raw, start, stop)
            stream, offset = window, window.start
    except (OSError, ValueError, DamagedError) as error:
        report.problems.append(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    yield from blocks_of(stream, report, name=name, block_bytes=block_bytes, offset=offset)
    after = os.fstat(raw.fileno())
    report.growing = after.st_size > before
    if after.st_size < before:
        report.problems.append(f"{name}: was cut from {before} to {after.st_size} bytes while it was read")
    if after.st_nlink == 0:
        report.problems.append(f"{name}: was removed or replaced while it was read")
