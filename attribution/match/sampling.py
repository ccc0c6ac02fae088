"""Thinning of lines of one kind in files that are full of them.

A file may consist of matching lines only (progress, benign warnings); then verifying every one would cost more than
everything else. Of lines on which only `Signature.dense` rules hit, the first `EXACT_DENSE` of a kind are exact and
later ones are kept ever more thinly, at places that alias with no number of interleaved ranks; any other kind is exact
up to `EXACT` lines. Which lines are kept depends on the file's content alone, not on the cut into blocks or the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from attribution.model import Source

#: Lines of one kind (set of candidate signatures) per file that are kept before thinning begins.
EXACT_DENSE = 64
EXACT = 16_384
#: Thinned progress lines that `Sampler.recent` remembers, newest last, and the bytes kept of each.
RECENT = 64
RECENT_BYTES = 4_096


class Skipped(NamedTuple):
    """A progress line that was thinned out: 1-based line, byte offset in the file, raw bytes, signature indexes."""

    line: int
    offset: int
    raw: bytes
    signatures: tuple[int, ...]


class Sampler:
    """Thins the candidates of one file. Feed its blocks in order; one sampler per file."""

    __slots__ = ("_counts", "_dense", "_pending", "_steps", "offset", "recent", "source")

    def __init__(self, dense: frozenset[int], steps: frozenset[int], source: Source | None = None) -> None:
        self.source = source
        self._dense, self._steps = dense, steps
        self._counts: dict[tuple[int, ...], int] = {}
        self._pending: dict[tuple[int, ...], int] = {}
        self.recent: deque[Skipped] = deque(maxlen=RECENT)
        self.offset = 0

    def weight(self, key: tuple[int, ...]) -> int:
        """Lines that this line of kind `key` stands for, 0 where it is thinned out."""
        n = self._counts.get(key, 0)
        self._counts[key] = n + 1
        if n < EXACT_DENSE:
            return 1
        exact = EXACT_DENSE if self._dense.issuperset(key) else EXACT
        if n < exact:
            return 1
        stride = 1 << (n // exact).bit_length()
        # Multiples of the golden ratio are spread evenly and alias with no number of interleaved ranks.
        if (n * 2_654_435_769) & 0xFFFF_FFFF >= (1 << 32) // stride:
            self._pending[key] = self._pending.get(key, 0) + 1
            return 0
        return 1 + self._pending.pop(key, 0)

    def weights(self, key: tuple[int, ...], count: int) -> list[tuple[int, int]]:
        """As `weight` for the next `count` lines of one kind at once: (place among them, weight) of those that are kept."""
        n = self._counts.get(key, 0)
        self._counts[key] = n + count
        exact = EXACT_DENSE if n + count <= EXACT_DENSE or self._dense.issuperset(key) else EXACT
        if n + count <= exact:
            return [(i, 1) for i in range(count)]
        places = np.arange(n, n + count, dtype=np.uint64)
        # The smallest power of two above n // exact, as `weight` takes it; 1 below `exact`.
        whole = (places // np.uint64(exact)).astype(np.float64)
        strides = np.where(whole < 1, 1.0, 2.0 ** (np.floor(np.log2(np.maximum(whole, 1.0))) + 1.0))
        spread = (places * np.uint64(2_654_435_769)) & np.uint64(0xFFFF_FFFF)
        kept = np.flatnonzero(spread.astype(np.float64) < np.floor(2.0**32 / strides))
        out: list[tuple[int, int]] = []
        before = -1
        pending = self._pending.pop(key, 0)
        for i in kept.tolist():
            out.append((i, i - before + pending))
            before, pending = i, 0
        left = count - 1 - before + pending
        if left:
            self._pending[key] = left
        return out

    def is_step(self, key: tuple[int, ...]) -> bool:
        """True for lines that may tell of progress."""
        return not self._steps.isdisjoint(key)

    def remember(
        self, buffer: bytes | bytearray, first_line: int, thinned: Sequence[tuple[int, int, tuple[int, ...]]]
    ) -> None:
        """Keep the last progress lines among those thinned out of a block, and count the block's bytes."""
        steps = (x for x in reversed(thinned) if self.is_step(x[2]))
        line, at = first_line, 0
        for start, end, key in reversed(list(islice(steps, RECENT))):
            line += buffer.count(b"\n", at, start)
            at = start
            raw = bytes(buffer[start : min(end, start + RECENT_BYTES)])
            self.recent.append(Skipped(line, self.offset + start, raw, key))
        self.offset += len(buffer)
