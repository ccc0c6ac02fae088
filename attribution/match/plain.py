"""The prefilter engine for platforms without the Hyperscan wheel; same hits, one per line and expression."""

from __future__ import annotations

import re

from attribution.signatures.relax import Relaxed


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
        for literal, users in self._users.items():
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
