"""The prefilter engine for platforms without the Hyperscan wheel; same hits, one per line and expression."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from attribution.signatures.relax import Relaxed

#: Below this size trying every literal is cheaper than asking which ones can be there.
_SMALL = 8_192
_BITS = 20
_MULTIPLIER = np.uint32(2_654_435_761)

_Hashes = npt.NDArray[np.uint32]


def _gram_hashes(data: bytes) -> _Hashes:
    """Hashes of all four-byte pieces of the data, each in `_BITS` bits."""
    a = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
    grams = a[:-3] | a[1:-2] << np.uint32(8) | a[2:-1] << np.uint32(16) | a[3:] << np.uint32(24)
    hashes: _Hashes = (grams * _MULTIPLIER) >> np.uint32(32 - _BITS)
    return hashes


class _Literals:
    """Says which of many literals can be in a buffer: all of whose four-byte pieces are there (up to hash clashes)."""

    def __init__(self, literals: list[bytes]) -> None:
        self.short = [x for x in literals if len(x) < 4]
        self.long = [x for x in literals if len(x) >= 4]
        hashes = [_gram_hashes(x) for x in self.long]
        self.hashes: _Hashes = np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.uint32)
        sizes = np.array([len(h) for h in hashes], dtype=np.int64)
        self.starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if hashes else sizes

    def possible(self, data: bytes) -> list[bytes]:
        """The literals to look for in `data`, in a fixed order."""
        if len(data) < _SMALL or not self.long:
            return [*self.short, *self.long]
        present = np.zeros(1 << _BITS, dtype=np.bool_)
        present[_gram_hashes(data)] = True
        all_there = np.logical_and.reduceat(present[self.hashes], self.starts)
        return [*self.short, *(self.long[int(i)] for i in np.flatnonzero(all_there))]


class PlainEngine:
    """Literals by `bytes.find`, then the relaxed expression by `re` on the lines that hold one."""

    name = "python"

    def __init__(self, expressions: tuple[Relaxed, ...]) -> None:
        self._texts = tuple((r.expression.encode("ascii"), r.ignore_case) for r in expressions)
        self._compiled: dict[int, re.Pattern[bytes]] = {}
        self._always = tuple(i for i, r in enumerate(expressions) if not r.literals)
        users: dict[bytes, list[int]] = {}
        for i, r in enumerate(expressions):
            for literal in r.literals:
                users.setdefault(literal, []).append(i)
        self._users = {k: tuple(v) for k, v in users.items()}
        self._literals = _Literals(list(users))

    def _search(self, expression: int, data: bytes, start: int, end: int) -> re.Match[bytes] | None:
        compiled = self._compiled.get(expression)
        if compiled is None:
            text, ignore_case = self._texts[expression]
            compiled = self._compiled[expression] = re.compile(text, re.IGNORECASE if ignore_case else 0)
        return compiled.search(data, start, end)

    def hits(self, data: bytes | bytearray | memoryview) -> list[tuple[int, int]]:
        """Hits in ascending order of the offset; one per line and expression."""
        whole = bytes(data)
        lower = whole.lower()
        found: list[tuple[int, int]] = []
        for expression in self._always:
            at = 0
            while (hit := self._search(expression, whole, at, len(whole))) is not None:
                found.append((hit.end(), expression))
                at = whole.find(b"\n", hit.end())
                if at < 0:
                    break
        tried: set[tuple[int, int]] = set()
        for literal in self._literals.possible(lower):
            users = self._users[literal]
            at = lower.find(literal)
            while at >= 0:
                start = whole.rfind(b"\n", 0, at) + 1
                end = whole.find(b"\n", at)
                end = len(whole) if end < 0 else end
                for expression in users:
                    if (start, expression) not in tried:
                        tried.add((start, expression))
                        hit = self._search(expression, whole, start, end)
                        if hit is not None:
                            found.append((hit.end(), expression))
                at = lower.find(literal, end)
        found.sort()
        return found
