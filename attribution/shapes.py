"""Lines -> shapes: digits squeezed, equal lines counted, no Python per line.

The shape of a line is the line with its digits turned to 0 and runs of 0 cut to one. Logs repeat but for their numbers:
signatures look at each distinct shape once (`attribution.match.shapes`), and mining counts shapes instead of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribution.sources.blocks import Block

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: Bytes squeezed and counted at a time: what fits the second-level cache.
PIECE = 512 * 1024
#: Segments are cut here; the rest of a longer one has no shape.
LONGEST = 2_000
#: Distinct shapes of one file that are kept; segments beyond count as `OTHER`.
MOST_SHAPES = 200_000
OTHER = b"<other>"
#: Id of a segment that has no shape of its own: too many shapes, or cut.
NONE = -1

_ZEROS = re.compile(rb"00+")
_SQUEEZE = bytes.maketrans(b"123456789\r", b"000000000\n")


@dataclass(slots=True)
class Shape:
    """Segments that are equal but for digits: how many, and the first of them (1-based line in its file)."""

    count: int
    first_line: int
    exemplar: bytes
    path: str = ""


@dataclass(slots=True)
class ShapeCounts:
    """Shapes of a file or of an attempt. `lines` counts all segments, blank ones left out."""

    shapes: dict[bytes, Shape] = field(default_factory=dict)
    lines: int = 0

    @staticmethod
    def merged(many: Iterable[ShapeCounts]) -> ShapeCounts:
        """The sum: counts add, the exemplar is the smallest by (path, line), so that order does not matter."""
        out = ShapeCounts()
        for counts in many:
            out.lines += counts.lines
            for key, shape in counts.shapes.items():
                old = out.shapes.get(key)
                if old is None:
                    out.shapes[key] = replace(shape)
                    continue
                if (shape.path, shape.first_line) < (old.path, old.first_line):
                    old.path, old.first_line, old.exemplar = shape.path, shape.first_line, shape.exemplar
                old.count += shape.count
        return out


@dataclass(frozen=True, slots=True)
class Shaped:
    """The segments of one block: shape ids (`NONE` where a segment has none), and where each begins in the block."""

    ids: Ints
    starts: Ints


class ShapeCounter:
    """Counts the shapes of one file, block by block, and gives every shape an id in order of appearance."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._shapes: list[Shape] = []
        self._ids: dict[bytes, int] = {}
        self._other: Shape | None = None
        self._lines = 0

    def feed(self, block: Block) -> Shaped:
        """Count the segments of one block."""
        data = bytes(block.data)
        ids: list[Ints] = []
        starts: list[Ints] = []
        line, at = block.first_line, 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + PIECE) + 1
            if end <= at:
                end = data.find(b"\n", at) + 1 or len(data)
            piece = data[at:end]
            found = self._piece(piece, line)
            ids.append(found.ids)
            starts.append(found.starts + at)
            line += piece.count(b"\n")
            at = end
        if not ids:
            return Shaped(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        return Shaped(np.concatenate(ids), np.concatenate(starts))

    def _piece(self, raw: bytes, first_line: int) -> Shaped:
        squeezed, kept = _squeeze(raw)
        ends = np.flatnonzero(squeezed == 10)
        if not len(ends) or ends[-1] != len(squeezed) - 1:
            ends = np.append(ends, len(squeezed))
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))
        lengths = np.minimum(ends - starts, LONGEST)
        full = lengths > 0
        starts, lengths, ends = starts[full], lengths[full], ends[full]
        if not len(starts):
            return Shaped(starts, starts)
        encoded = _binary(squeezed.tobytes(), starts, ends, lengths).dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        # Codes are given in order of appearance; the first place of each is where it is met first.
        firsts = np.unique(codes, return_index=True)[1]
        totals = np.bincount(codes)
        fresh = _Origins(raw, kept, first_line)
        table = np.fromiter(
            (
                self._add(key, count, at, fresh)
                for key, count, at in zip(
                    encoded.dictionary.to_pylist(), totals.tolist(), starts[firsts].tolist(), strict=True
                )
            ),
            dtype=np.int64,
            count=len(totals),
        )
        self._lines += len(codes)
        ids = table[codes]
        ids[lengths == LONGEST] = NONE
        return Shaped(ids, starts if kept is None else kept[starts])

    def _add(self, key: bytes, count: int, at: int, origins: _Origins) -> int:
        known = self._ids.get(key)
        if known is not None:
            self._shapes[known].count += count
            return known
        line, exemplar = origins.line(at)
        if len(self._shapes) < MOST_SHAPES:
            self._ids[key] = len(self._shapes)
            self._shapes.append(Shape(count=count, first_line=line, exemplar=exemplar, path=self._path))
            return len(self._shapes) - 1
        if self._other is None:
            self._other = Shape(count=0, first_line=line, exemplar=OTHER, path=self._path)
        self._other.count += count
        return NONE

    def fresh(self, since: int) -> list[bytes]:
        """Keys of the shapes with ids from `since` on, in the order of their ids."""
        keys = list(self._ids)
        return keys[since:]

    def __len__(self) -> int:
        return len(self._shapes)

    def counts(self) -> ShapeCounts:
        """What was counted so far."""
        shapes = dict(zip(self._ids, self._shapes, strict=True))
        if self._other is not None:
            shapes[OTHER] = self._other
        return ShapeCounts(shapes=shapes, lines=self._lines)


def shape_of(line: bytes) -> bytes:
    """The shape of one line, as counting gives it."""
    return _ZEROS.sub(b"0", line.translate(_SQUEEZE))[:LONGEST]


def _squeeze(raw: bytes) -> tuple[Bytes, Ints | None]:
    """Digits to 0 and runs of 0 to one; positions of the kept bytes, None where all were kept."""
    flat = np.frombuffer(raw.translate(_SQUEEZE), dtype=np.uint8)
    zero = flat == 48
    run = zero[1:] & zero[:-1]
    if not run.any():
        return flat, None
    kept = np.flatnonzero(np.concatenate((np.ones(1, dtype=bool), ~run)))
    return flat[kept], kept


class _Origins:
    """From a place in the squeezed bytes back to the raw line: its number and its text."""

    def __init__(self, raw: bytes, kept: Ints | None, first_line: int) -> None:
        self._raw, self._kept, self._first_line = raw, kept, first_line
        self._ends: Ints | None = None

    def line(self, at: int) -> tuple[int, bytes]:
        """1-based line number and the raw bytes of the segment that starts at `at`."""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self._raw, dtype=np.uint8) == 10)
        start = int(self._kept[at]) if self._kept is not None else at
        end = self._raw.find(b"\n", start)
        stop = len(self._raw) if end < 0 else end
        bar = self._raw.find(b"\r", start, stop)
        stop = bar if bar > start else stop
        line = self._first_line + int(np.searchsorted(self._ends, start))
        return line, self._raw[start : min(stop, start + LONGEST)]


def _binary(buffer: bytes, starts: Ints, ends: Ints, lengths: Ints) -> pa.Array:
    """Segments as an Arrow array: a view of the buffer where nothing is cut and no blank line lies between."""
    adjacent = len(starts) == 1 or bool((starts[1:] == ends[:-1] + 1).all())
    if adjacent and bool((lengths == ends - starts).all()) and int(ends[-1]) < len(buffer):
        # Offsets of neighbours must meet, so each segment keeps its line end until it is sliced off.
        offsets = np.append(starts, int(ends[-1]) + 1).astype(np.int32)
        lines = pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
        return pc.binary_replace_slice(lines, start=-1, stop=2**31 - 1, replacement=b"")
    pieces = [buffer[s : s + n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    return pa.array(pieces, type=pa.binary())
