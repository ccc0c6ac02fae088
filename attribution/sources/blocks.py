"""Reads a log as newline-aligned blocks of one reused buffer, whatever its compression and size.

`read_blocks` never raises for a log that cannot be read to its end: what was read stays, and the `ReadReport` says what
was lost. Reading costs what ``readinto`` costs: there is no Python work per line here.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Protocol

#: Fits the second-level cache: larger blocks were measured to be slower.
BLOCK_BYTES = 1 << 20
#: A longer line is handed out in pieces; its line number and offsets stay exact.
LONGEST_LINE = 8 << 20

_MAGIC = (
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bz2"),
)
#: Beginnings of files that are certainly no logs.
_BINARY = (
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)"),
    (b"\x7fELF", "an executable"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x89PNG", "a picture"),
    (b"PAR1", "a Parquet file"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"SQLite", "a database"),
)


class Readable(Protocol):
    """What a log is read through."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill `buffer` as far as there is something."""
        ...


@dataclass(slots=True)
class ReadReport:
    """What happened while one log was read. `problems` are sentences for a person; `growing` is a hint."""

    bytes_read: int = 0
    lines: int = 0
    growing: bool = False
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """Whole lines. `data` is only valid until the next block is asked for.

    `offset` is the byte offset of its first byte in the decompressed file, `first_line` its 1-based number.
    """

    data: memoryview | bytes
    offset: int
    first_line: int
    newlines: int

    @property
    def next_line(self) -> int:
        """Number of the line that begins behind the block."""
        return self.first_line + self.newlines

    def count_lines(self, start: int, end: int) -> int:
        """Line ends between two positions of the block."""
        return bytes(self.data[start:end]).count(b"\n")


def block_of(data: bytes, offset: int, first_line: int) -> Block:
    """A block of bytes that are already in memory."""
    return Block(data=data, offset=offset, first_line=first_line, newlines=data.count(b"\n"))


def compression_of(head: bytes) -> str | None:
    """``gz``, ``zst``, ``xz`` or ``bz2`` by the first bytes of a file, None for anything else."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def why_binary(head: bytes) -> str | None:
    """Why a (decompressed) beginning belongs to no log, None where it may.

    Some NULs are usual in logs of killed jobs on network file systems; a tenth of a beginning is not.
    """
    for magic, what in _BINARY:
        if head.startswith(magic):
            return f"looks like {what}"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
    sample = head[:8192]
    if sample and sample.count(0) * 10 > len(sample) and sample.strip(b"\0"):
        return "is binary (every tenth byte is NUL)"
    return None


class _Zst:
    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)

    def readinto(self, buffer: memoryview, /) -> int | None:
        return self._reader.readinto(buffer)


def _gz(raw: IO[bytes]) -> Readable:
    try:
        from isal import igzip
    except ImportError:
        import gzip

        return gzip.GzipFile(fileobj=raw)
    return igzip.IGzipFile(fileobj=raw)  # type: ignore[no-any-return]


def decompressed(raw: IO[bytes], compression: str | None) -> Readable:
    """`raw` read through the decompressor of `compression`."""
    if compression == "gz":
        return _gz(raw)
    if compression == "zst":
        return _Zst(raw)
    if compression == "xz":
        return lzma.LZMAFile(raw)
    if compression == "bz2":
        return bz2.BZ2File(raw)
    return raw  # type: ignore[return-value]


def _damage() -> tuple[type[BaseException], ...]:
    """Exceptions by which a decompressor says that its input is damaged."""
    kinds: list[type[BaseException]] = [EOFError, zlib.error, lzma.LZMAError, OSError, ValueError]
    try:
        import zstandard
    except ImportError:
        return tuple(kinds)
    return (*kinds, zstandard.ZstdError)


def blocks_of(
    stream: Readable, report: ReadReport, *, name: str = "", block_bytes: int = BLOCK_BYTES, offset: int = 0
) -> Iterator[Block]:
    """Newline-aligned blocks of a stream. Damage ends the stream; what came before it is kept and reported."""
    buffer = bytearray(block_bytes)
    filled, line = 0, 1
    damage = _damage()
    while True:
        if filled == len(buffer):
            buffer.extend(bytes(len(buffer)))
        view = memoryview(buffer)
        try:
            n = stream.readinto(view[filled:])
        except damage as error:
            report.problems.append(f"{name}: damaged or cut off after {report.bytes_read} bytes: {error}")
            n = 0
        if not n:
            view.release()
            break
        report.bytes_read += n
        end = buffer.rfind(b"\n", filled, filled + n) + 1
        filled += n
        if end == 0:
            if filled < LONGEST_LINE:
                view.release()
                continue
            end = filled
        block = Block(data=view[:end], offset=offset, first_line=line, newlines=buffer.count(b"\n", 0, end))
        yield block
        offset += end
        line += block.newlines
        block.data.release() if isinstance(block.data, memoryview) else None
        view.release()
        rest = buffer[end:filled]
        buffer[: len(rest)] = rest
        filled = len(rest)
        if len(buffer) > block_bytes and filled < block_bytes:
            buffer = bytearray(rest.ljust(block_bytes, b"\0"))
    if filled:
        data = bytes(buffer[:filled])
        yield Block(data=data, offset=offset, first_line=line, newlines=data.count(b"\n"))
        line += data.count(b"\n")
    report.lines = line - 1


class _Window:
    """A byte range [start, stop) of a plain file, moved to line starts: a line belongs where its first byte is."""

    def __init__(self, raw: IO[bytes], start: int, stop: int | None) -> None:
        self._raw = raw
        self.start = self._line_start(start)
        self._left = None if stop is None else max(0, self._line_start(stop) - self.start)
        raw.seek(self.start)

    def _line_start(self, at: int) -> int:
        if at <= 0:
            return 0
        self._raw.seek(at - 1)
        while piece := self._raw.readline(1 << 16):
            at += len(piece)
            if piece.endswith(b"\n"):
                break
        return at - 1

    def readinto(self, buffer: memoryview, /) -> int | None:
        if self._left is None:
            return self._raw.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        n = self._raw.readinto(buffer[: self._left])  # type: ignore[attr-defined]
        self._left -= n or 0
        return n  # type: ignore[no-any-return]


def open_log(path: str) -> IO[bytes]:
    """A local file, or a remote one through fsspec.

    Raises:
        OSError: it cannot be opened; for a remote address without fsspec, with the way to install it.
    """
    if "://" in path:
        try:
            import fsspec
        except ImportError as error:
            raise OSError("remote addresses need fsspec: pip install 'recovery-attribution[remote]'") from error
        return fsspec.open(path, "rb").open()  # type: ignore[no-any-return]
    return open(path, "rb", buffering=0)  # noqa: SIM115, PTH123 - handed to the caller, who closes it


def read_path(
    path: str,
    report: ReadReport,
    *,
    name: str,
    compression: str | None,
    block_bytes: int = BLOCK_BYTES,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[Block]:
    """Blocks of one file. Line numbers of a range that does not begin at 0 count from the range's own start."""
    try:
        raw = open_log(path)
    except (OSError, ValueError) as error:
        report.problems.append(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    with raw:
        if compression is None and (start or stop is not None):
            window = _Window(raw, start, stop)
            yield from blocks_of(window, report, name=name, block_bytes=block_bytes, offset=window.start)
        else:
            before = _size(raw)
            yield from blocks_of(decompressed(raw, compression), report, name=name, block_bytes=block_bytes)
            report.growing = compression is None and before is not None and (_size(raw) or before) > before


def _size(raw: IO[bytes]) -> int | None:
    try:
        return os.fstat(raw.fileno()).st_size
    except (OSError, AttributeError, ValueError):
        return None
