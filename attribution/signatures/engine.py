"""What the tools of this package need of the matcher. `attribution.match.Matcher` is one; no import of it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attribution.model import Line, Match, Role
from attribution.signatures.rules import RuleSet


class Hit(Protocol):
    """A line that may match."""

    @property
    def start(self) -> int:
        """Offset of the line's first byte."""
        ...

    @property
    def signatures(self) -> tuple[int, ...]:
        """Indexes of the signatures that may match."""
        ...


class Engine(Protocol):
    """First and second pass over lines."""

    ruleset: RuleSet

    def scan_block(self, data: bytes, first_line: int = 1) -> Sequence[Hit]:
        """Lines that may match, in order."""
        ...

    def candidates(self, text: str) -> tuple[int, ...]:
        """Signatures that may match one message."""
        ...

    def verify(self, line: Line, candidates: Sequence[int], frames: Sequence[str] = ()) -> list[Match]:
        """Signatures that do match, the most specific first."""
        ...


def speakers(matches: Sequence[Match]) -> list[Match]:
    """Matches of one line that are heard: none but the noise where a noise rule is at least as specific as the rest."""
    live = [m for m in matches if not m.shadow]
    noise = next((m for m in live if m.role is Role.NOISE), None)
    if noise is not None and noise.specificity >= live[0].specificity:
        return [noise]
    return [m for m in live if m.role is not Role.NOISE]
