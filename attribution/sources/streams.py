"""Compressed and plain bytes behind one `readinto`: what a file is, and how to read it to the last good byte.

The kind is told by a file's first bytes, never by its name. Decompressors run in small steps, so that a damaged or
cut-off file yields what lies before the damage, and a hostile one cannot ask for more memory than a step.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol

#: Enough of a file to tell what it is.
HEAD_BYTES = 4096
#: Compressed bytes read at once, and most bytes asked of a decompressor at once: what one damage can cost.
_CHUNK = 1 << 18
_STEP = 1 << 16
#: zstandard has no output limit, so it is fed little at a time.
_ZST_STEP = 1 << 10

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
    (b"\xff\xd8\xff", "a picture"),
    (b"%PDF-", "a PDF document"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
    (b"SQLite format 3", "a database"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Readable(Protocol):
    """What a log is read through."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill `buffer` as far as there is something; 0 or None at the end."""
        ...


class DamagedError(Exception):
    """A stream ended before its end. Everything before it was handed out already."""


class _Member(Protocol):
    """One decompressor, good for one member or frame of a stream."""

    eof: bool
    unused_data: bytes
    needs_input: bool

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def compression_of(head: bytes) -> str | None:
    """``gz``, ``zst``, ``xz`` or ``bz2`` by the first bytes of a file, None for anything else."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def why_binary(head: bytes) -> str | None:
    """Why a (decompressed) beginning belongs to no log, None where it may.

    Some NULs are usual in logs of killed jobs on network file systems, and so is a beginning of NULs only; a tenth of
    a beginning with something else between them is not.
    """
    for magic, what in _BINARY:
        if head.startswith(magic):
            return f"looks like {what}"
    if head.startswith(_UTF16):
        return "is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
    if len(head) > 16 and head[1:8] == b"\0" * 7 and head[8:10] == b'{"':
        return "looks like a safetensors file"
    sample = head.strip(b"\0")
    if sample.count(0) * 10 > len(sample):
        return "is binary (every tenth byte is NUL)"
    # C0 codes that no terminal output has; ESC, TAB, CR, LF, FF and BS are usual.
    odd = len(sample) - len(sample.translate(None, bytes(b for b in range(32) if b not in b"\0\a\b\t\n\v\f\r\x1b")))
    return "is binary (control codes)" if odd * 10 > len(sample) else None


class _Zlib:
    """zlib with the face of `bz2.BZ2Decompressor`, for machines without isal."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))


class _Zst:
    """zstandard with the face of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        import zstandard

        self._inner = zstandard.ZstdDecompressor().decompressobj()
        self._waiting = b""
        self._at = 0

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data + self._waiting[self._at :]

    @property
    def needs_input(self) -> bool:
        return self._at >= len(self._waiting)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if data:
            self._waiting, self._at = self._waiting[self._at :] + data, 0
        piece = self._waiting[self._at : self._at + _ZST_STEP]
        self._at += len(piece)
        return self._inner.decompress(piece) if piece else b""


def _factory(compression: str) -> tuple[Callable[[], Any], tuple[Any, ...]]:
    """A maker of decompressors, and the exceptions by which they say that their input is damaged."""
    if compression == "zst":
        import zstandard

        return _Zst, (zstandard.ZstdError,)
    if compression == "xz":
        return lzma.LZMADecompressor, (lzma.LZMAError, EOFError)
    if compression == "bz2":
        return bz2.BZ2Decompressor, (OSError, ValueError, EOFError)
    try:
        from isal import igzip_lib
    except ImportError:
        return _Zlib, (zlib.error, EOFError)
    return (
        lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP),
        (igzip_lib.IsalError, zlib.error, EOFError, ValueError),
    )


class Decompressed:
    """The decompressed bytes of a stream of one or more members."""

    def __init__(self, raw: Readable, compression: str) -> None:
        self._raw = raw
        self._kind = compression
        self._make, self._damage = _factory(compression)
        self._magic = next(magic for magic, name in _MAGIC if name == compression)
        self._member: _Member | None = None
        self._input = b""
        self._pending = memoryview(b"")
        self._buffer = memoryview(bytearray(_CHUNK))
        self._ended = False
        self._damaged: str | None = None

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill `buffer`, unless the end comes first.

        Raises:
            DamagedError: the stream is damaged or cut off, and all bytes before that were handed out.
        """
        filled = 0
        while filled < len(buffer):
            if not self._pending:
                self._pending = memoryview(self._next())
                if not self._pending:
                    break
            n = min(len(self._pending), len(buffer) - filled)
            buffer[filled : filled + n] = self._pending[:n]
            self._pending = self._pending[n:]
            filled += n
        if not filled and self._damaged:
            reason, self._damaged = self._damaged, None
            raise DamagedError(reason)
        return filled

    def _read(self) -> bytes:
        try:
            n = self._raw.readinto(self._buffer) or 0
        except OSError as error:
            self._stop(f"reading failed: {error.strerror or error}")
            return b""
        return bytes(self._buffer[:n])

    def _stop(self, why: str | None) -> None:
        self._ended = True
        self._damaged = self._damaged or why

    def _next(self) -> bytes:
        """The next decompressed piece; empty at the end."""
        while not self._ended:
            if self._member is None and not self._begin():
                break
            member = self._member
            if member is None:
                break
            if not self._input and member.needs_input:
                self._input = self._read()
                if not self._input:
                    self._stop(f"the {self._kind} stream is cut off")
                    break
            data, self._input = self._input, b""
            try:
                out = member.decompress(data, _STEP)
            except self._damage as error:
                self._stop(f"the {self._kind} stream is damaged: {error}")
                break
            if member.eof:
                self._input, self._member = bytes(member.unused_data), None
            if out:
                return out
        return b""

    def _begin(self) -> bool:
        """Start on the next member, if there is one. Padding of zeros is usual, other bytes are reported."""
        first = self._input.lstrip(b"\0")
        while len(first) < len(self._magic) and (more := self._read()):
            first = (first + more).lstrip(b"\0")
        if not first:
            self._stop(None)
            return False
        if not first.startswith(self._magic):
            self._stop(f"bytes behind the end of the {self._kind} stream were left out")
            return False
        self._input, self._member = first, self._make()
        return True


class Peeked:
    """A stream whose first bytes were already read, to look at them."""

    def __init__(self, raw: Any) -> None:
        # One system call per request: a pipe's bytes are handed on as they come.
        self._read = getattr(raw, "readinto1", None) or raw.readinto
        self._error: DamagedError | None = None
        buffer = bytearray(HEAD_BYTES)
        filled = 0
        # An interactive stream is not kept waiting once there is enough to judge by.
        while filled < 8 and (n := self._next(memoryview(buffer)[filled:])):
            filled += n
        self.head = bytes(buffer[:filled])
        self._rest = memoryview(self.head)

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Hand out the head, then the stream."""
        if self._rest:
            n = min(len(buffer), len(self._rest))
            buffer[:n] = self._rest[:n]
            self._rest = self._rest[n:]
            return n
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._read(buffer)  # type: ignore[no-any-return]

    def _next(self, buffer: memoryview) -> int:
        try:
            return self._read(buffer) or 0
        except DamagedError as error:
            # Told once what came before it was handed out.
            self._error = error
            return 0


class Window:
    """A byte range [start, stop) of a plain file, moved to line starts: a line belongs where its first byte is."""

    def __init__(self, raw: IO[bytes], start: int, stop: int | None) -> None:
        self._raw = raw
        self.start = self._line_start(start)
        self._left = None if stop is None else max(0, self._line_start(stop) - self.start)
        raw.seek(self.start)

    def _line_start(self, at: int) -> int:
        """First line start at or behind `at`; the end of the file where there is none."""
        if at <= 0:
            return 0
        self._raw.seek(at - 1)
        position = at - 1
        while piece := self._raw.read(_STEP):
            found = piece.find(b"\n")
            if found >= 0:
                return position + found + 1
            position += len(piece)
        return position

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Read on, not beyond the range."""
        if self._left is None:
            return self._raw.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        if self._left == 0:
            return 0
        n = self._raw.readinto(buffer[: self._left])  # type: ignore[attr-defined]
        self._left -= n or 0
        return n  # type: ignore[no-any-return]


def open_raw(path: str) -> IO[bytes]:
    """A local file unbuffered, or a remote one through fsspec.

    Raises:
        OSError: it cannot be opened; for a remote address without fsspec, with the way to install it.
    """
    if "://" in path:
        try:
            import fsspec
        except ImportError as error:
            raise OSError("remote addresses need fsspec: pip install 'recovery-attribution[remote]'") from error
        try:
            return fsspec.open(path, "rb").open()  # type: ignore[no-any-return]
        except (ImportError, ValueError) as error:
            raise OSError(str(error)) from error
    return open(path, "rb", buffering=0)  # noqa: PTH123 - handed to the caller, who closes it


def head_of(path: str) -> tuple[str | None, bytes]:
    """Compression of a local file and its first `HEAD_BYTES` decompressed bytes.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.read(descriptor, HEAD_BYTES)
        compression = compression_of(head)
        if compression is None:
            return None, head
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", buffering=0, closefd=False) as raw:
            buffer = memoryview(bytearray(HEAD_BYTES))
            try:
                n = Decompressed(raw, compression).readinto(buffer) or 0
            except DamagedError:
                # Reported where the file is read.
                n = 0
            return compression, bytes(buffer[:n])
    finally:
        os.close(descriptor)
