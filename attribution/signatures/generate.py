"""Texts that a pattern matches, for testing that the prefilter engine sees them."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from typing import Any

from attribution.signatures.rules import Pattern

_parser: Any = importlib.import_module("re._parser")

_PRINTABLE = [chr(c) for c in range(32, 127)]
_MEMBERS = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcXYZ019_",
    "CATEGORY_SPACE": " \t",
    "CATEGORY_NOT_DIGIT": "ab -:./",
    "CATEGORY_NOT_WORD": " -:./[]",
    "CATEGORY_NOT_SPACE": "abX019-:./",
}


class _Writer:
    """Writes one text along the tree of a pattern."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.groups: dict[int, str] = {}

    def items(self, items: Any) -> str:
        """Text of a sequence."""
        return "".join(self.item(str(op), arg) for op, arg in items)

    def item(self, op: str, arg: Any) -> str:
        """Text of one construct; look-around writes nothing, and the caller drops a text that fails for it."""
        match op:
            case "LITERAL":
                return chr(arg)
            case "NOT_LITERAL":
                return self.rng.choice([c for c in _PRINTABLE if ord(c) != arg])
            case "ANY":
                return self.rng.choice(_PRINTABLE)
            case "IN":
                return self.rng.choice(self.members(arg))
            case "BRANCH":
                return self.items(self.rng.choice(arg[1]))
            case "SUBPATTERN":
                text = self.items(arg[3])
                if arg[0] is not None:
                    self.groups[arg[0]] = text
                return text
            case "ATOMIC_GROUP":
                return self.items(arg)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, body = arg
                times = self.rng.randint(int(low), min(int(high), int(low) + 2))
                return "".join(self.items(body) for _ in range(times))
            case "GROUPREF":
                return self.groups.get(arg, "")
        return ""

    def members(self, items: Any) -> list[str]:
        """Characters of a set, a few of each kind."""
        found: list[str] = []
        negate = False
        for op, arg in items:
            match str(op):
                case "NEGATE":
                    negate = True
                case "LITERAL":
                    found.append(chr(arg))
                case "RANGE":
                    found += [chr(c) for c in range(arg[0], min(arg[1], arg[0] + 80) + 1)]
                case "CATEGORY":
                    found += list(_MEMBERS[str(arg)])
        return [c for c in _PRINTABLE if c not in found] if negate else found


def texts(pattern: Pattern, count: int, seed: int = 0) -> list[str]:
    """Up to `count` one-line texts that the pattern matches; the same ones for the same seed."""
    tree = _parser.parse(pattern.source, pattern.flags)
    rng = random.Random(f"{seed} {pattern.source}")
    compiled = re.compile(pattern.source, pattern.flags)
    out: list[str] = []
    for _ in range(count * 3):
        text = _Writer(rng).items(tree)
        if len(out) < count and "\n" not in text and compiled.search(text) is not None:
            out.append(text)
    return out


def hostile(pattern: Pattern, size: int) -> Iterator[str]:
    """Messages of `size` characters that begin to match again and again and never do: the worst that a log can hold."""
    for text in texts(pattern, 2, seed=1):
        for piece in (text[:-1] + "a", text[: len(text) // 2 + 1], text[: max(1, len(text) // 3)] + " "):
            yield (piece * (size // len(piece) + 1))[:size]
            yield (piece + "a" * size)[:size]
