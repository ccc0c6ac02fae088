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

from attribution.sources.blocks import Block, block_of

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: Bytes squeezed and counted at a time: what fits the second-level cache, and what is allocated without asking the kernel.
PIECE = 512 * 1024
#: Segments are cut here; the rest of a longer one has no shape.
LONGEST = 2_000
#: Distinct shapes of one file that are kept, and their bytes; segments beyond count as `OTHER`.
MOST_SHAPES = 200_000
MOST_BYTES = 32 << 20
#: Distinct shapes that are kept of an attempt's files together.
MOST_MERGED = 500_000
#: Where a piece has few distinct segments even with their runs of 0, those alone are squeezed, and remembered; else the
#: whole piece is, and the next ones too.
FEW = 256
MOST_WIDE = 20_000
SQUEEZED_AT_ONCE = 16
OTHER = b"<other>"
#: Id of a segment that has no shape of its own: too many shapes, or cut.
NONE = -1

_ZEROS = re.compile(rb"00+")
_SQUEEZE = bytes.maketrans(b"123456789\r", b"000000000\n")
_ZERO = np.zeros(1, dtype=np.int64)


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
        given = list(many)
        if len(given) == 1:
            return given[0]
        out = ShapeCounts()
        for counts in given:
            out.lines += counts.lines
            for own, shape in counts.shapes.items():
                key = own if own in out.shapes or len(out.shapes) < MOST_MERGED else OTHER
                old = out.shapes.get(key)
                if old is None:
                    out.shapes[key] = replace(shape, exemplar=OTHER) if key == OTHER else replace(shape)
                    continue
                if (shape.path, shape.first_line) < (old.path, old.first_line):
                    old.path, old.first_line, old.exemplar = shape.path, shape.first_line, shape.exemplar
                old.count += shape.count
        return out


@dataclass(frozen=True, slots=True)
class Shaped:
    """The segments of one block.

    `ids` are their shapes (`NONE` where a segment has none), `starts` where each begins in the block; `ends` says where
    the block's lines end, which carriage returns do not.
    """

    ids: Ints
    starts: Ints
    ends: Ints


_NOTHING: Ints = np.empty(0, dtype=np.int64)


class ShapeCounter:
    """Counts the shapes of one file, block by block, and gives every shape an id in order of appearance."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._shapes: list[Shape] = []
        self._keys: list[bytes] = []
        self._ids: dict[bytes, int] = {}
        self._wide: dict[bytes, int] = {}
        self._squeeze_pieces = 0
        self._bytes = 0
        self._other: Shape | None = None
        self._lines = 0

    def feed(self, block: Block) -> Shaped:
        """Count the segments of one block."""
        data = bytes(block.data)
        found: list[Shaped] = []
        line, at = block.first_line, 0
        while at < len(data):
            end = len(data) if len(data) - at <= PIECE else data.rfind(b"\n", at, at + PIECE) + 1
            if end <= at:
                end = data.find(b"\n", at) + 1 or len(data)
            piece = self._piece(data[at:end] if end - at < len(data) else data, line)
            found.append(piece if not at else Shaped(piece.ids, piece.starts + at, piece.ends + at))
            line += len(piece.ends)
            at = end
        if len(found) == 1:
            return found[0]
        if not found:
            return Shaped(_NOTHING, _NOTHING, _NOTHING)
        return Shaped(
            np.concatenate([f.ids for f in found]),
            np.concatenate([f.starts for f in found]),
            np.concatenate([f.ends for f in found]),
        )

    def _piece(self, raw: bytes, first_line: int) -> Shaped:
        whole = raw if raw.endswith(b"\n") else raw + b"\n"
        digits = whole.translate(_SQUEEZE)
        flat = np.frombuffer(digits, dtype=np.uint8)
        stops = np.flatnonzero(flat == 10)
        line_ends = stops if b"\r" not in whole else np.flatnonzero(np.frombuffer(whole, dtype=np.uint8) == 10)
        starts = np.concatenate((_ZERO, stops[:-1] + 1))
        lengths = stops - starts
        known, encoded = self._wide, None
        if self._squeeze_pieces:
            self._squeeze_pieces -= 1
        elif int(lengths.max()) < LONGEST:
            encoded = _encoded(digits, stops)
            if len(encoded.dictionary) > max(FEW, len(stops) // 4):
                encoded, self._squeeze_pieces = None, SQUEEZED_AT_ONCE
        if encoded is None:
            known = self._ids
            encoded, lengths = _squeezed(flat)
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        # Codes are given in order of appearance, so a code is met first where it is above all before it.
        firsts = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        table = self._table(
            known,
            encoded.dictionary.to_pylist(),
            np.bincount(codes).tolist(),
            zip(starts[firsts].tolist(), stops[firsts].tolist(), strict=True),
            _Origins(raw, line_ends, first_line),
        )
        ids = table[codes]
        ids[lengths >= LONGEST] = NONE
        full = lengths > 0
        if not full.all():
            ids, starts = ids[full], starts[full]
        self._lines += len(ids)
        return Shaped(ids, starts, line_ends if raw is whole else line_ends[:-1])

    def _table(
        self,
        known: dict[bytes, int],
        keys: list[bytes],
        counts: list[int],
        places: Iterable[tuple[int, int]],
        origins: _Origins,
    ) -> Ints:
        """Ids of the distinct segments of one piece, which are counted by the way. Their keys end with a line end."""
        table = np.empty(len(keys), dtype=np.int64)
        for i, (key, count, place) in enumerate(zip(keys, counts, places, strict=True)):
            shape = known.get(key)
            if shape is None and known is self._wide:
                shape = self._narrow(key)
            if shape is None:
                table[i] = self._new(_ZEROS.sub(b"0", key), count, *place, origins) if len(key) > 1 else NONE
            else:
                old = self._shapes[shape]
                if not old.count:  # met first since the last cut
                    old.first_line, old.exemplar = origins.line(*place)
                old.count += count
                table[i] = shape
        return table

    def _narrow(self, key: bytes) -> int | None:
        """Id of the shape of a segment whose runs of 0 are still there, remembered."""
        shape = self._ids.get(_ZEROS.sub(b"0", key))
        if shape is not None:
            if len(self._wide) >= MOST_WIDE:
                self._wide.clear()
            self._wide[key] = shape
        return shape

    def _new(self, key: bytes, count: int, start: int, stop: int, origins: _Origins) -> int:
        line, exemplar = origins.line(start, stop)
        if len(self._shapes) < MOST_SHAPES and self._bytes < MOST_BYTES:
            self._bytes += len(key) + len(exemplar)
            self._ids[key] = len(self._shapes)
            self._keys.append(key)
            self._shapes.append(Shape(count=count, first_line=line, exemplar=exemplar, path=self._path))
            return len(self._shapes) - 1
        if self._other is None:
            self._other = Shape(count=0, first_line=line, exemplar=OTHER, path=self._path)
        self._other.count += count
        return NONE

    def fresh(self, since: int) -> list[bytes]:
        """Keys of the shapes with ids from `since` on, in the order of their ids."""
        return [k[:-1] for k in self._keys[since:]]

    def __len__(self) -> int:
        return len(self._shapes)

    def counts(self) -> ShapeCounts:
        """What was counted so far, since the last cut if there was one."""
        shapes = {k[:-1]: shape for k, shape in zip(self._keys, self._shapes, strict=True) if shape.count}
        if self._other is not None and self._other.count:
            shapes[OTHER] = self._other
        return ShapeCounts(shapes=shapes, lines=self._lines)

    def cut(self, block: Block, at: int) -> ShapeCounts:
        """What was counted before a line of the block that was fed last; counting begins anew with that line.

        Args:
            block: the block that was fed last.
            at: where the line begins in it.
        """
        rest = ShapeCounter(self._path)
        rest.feed(block_of(bytes(block.data[at:]), block.offset + at, block.first_line + block.count_lines(0, at)))
        behind = rest.counts()
        left = {k: shape.count for k, shape in behind.shapes.items() if k + b"\n" in self._ids}
        left[OTHER] = behind.lines - sum(left.values())
        before = ShapeCounts(lines=self._lines - rest._lines)
        for key, shape in self.counts().shapes.items():
            count = shape.count - left.get(key, 0)
            if count:
                before.shapes[key] = replace(shape, count=count)
            shape.count = 0
        for key, shape in behind.shapes.items():
            number = self._ids.get(key + b"\n")
            if number is not None:
                self._shapes[number] = shape
        if self._other is not None:
            self._other = replace(self._other, count=left[OTHER])
        self._lines = rest._lines
        return before


def shape_of(line: bytes) -> bytes:
    """The shape of one line, as counting gives it."""
    return _ZEROS.sub(b"0", line.translate(_SQUEEZE))[:LONGEST]


def _encoded(data: bytes | Bytes, ends: Ints) -> pa.DictionaryArray:
    """Segments as codes of the distinct ones. Each keeps its line end, since offsets of neighbours must meet."""
    offsets = np.concatenate((_ZERO, ends + 1)).astype(np.int32)
    lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return lines.dictionary_encode()


def _squeezed(flat: Bytes) -> tuple[pa.DictionaryArray, Ints]:
    """Segments with runs of 0 cut to one, as codes, and their lengths before they were cut at `LONGEST`."""
    zero = flat == 48
    kept = np.empty(len(flat), dtype=bool)
    kept[0] = True
    np.logical_and(zero[1:], zero[:-1], out=kept[1:])
    np.logical_not(kept[1:], out=kept[1:])
    squeezed = flat[kept]
    ends = np.flatnonzero(squeezed == 10)
    lengths = np.diff(ends, prepend=-1) - 1
    if int(lengths.max()) > LONGEST:
        squeezed, ends = _cut(squeezed, ends, lengths)
    return _encoded(squeezed, ends), lengths


def _cut(squeezed: Bytes, ends: Ints, lengths: Ints) -> tuple[Bytes, Ints]:
    """Segments cut at `LONGEST`, and where they end then."""
    kept = np.ones(len(squeezed), dtype=bool)
    for i in np.flatnonzero(lengths > LONGEST).tolist():
        end = int(ends[i])
        kept[end - int(lengths[i]) + LONGEST : end] = False
    return squeezed[kept], ends - np.cumsum(np.maximum(lengths - LONGEST, 0))


class _Origins:
    """From a place in a piece back to the raw line: its number and its text."""

    def __init__(self, raw: bytes, ends: Ints, first_line: int) -> None:
        self._raw, self._ends, self._first_line = raw, ends, first_line

    def line(self, start: int, stop: int) -> tuple[int, bytes]:
        """1-based line number and the raw bytes, bounded, of the segment between two positions."""
        line = self._first_line + int(np.searchsorted(self._ends, start))
        return line, self._raw[start : min(stop, start + LONGEST)]
