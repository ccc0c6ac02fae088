"""Slurm's compact node lists: ``gpu-[001-003,7],login1`` and back to names.

Source of the grammar: Slurm's hostlist.c as documented under "hostlist expressions" in scontrol(1). Bounded, because
a node list can come from a log or a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from attribution.model import SchedulerError

MAX_HOSTS = 65_536
_RANGE = re.compile(r"^(\d{1,18})(?:-(\d{1,18}))?$", re.ASCII)
#: Characters that a node name may have; anything else is refused before it comes near a command.
NODE_NAME = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?$", re.ASCII)


def expand(text: str, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """Names in order of appearance, without repetition.

    Raises SchedulerError for a list that is malformed or has more than `limit` names.
    """
    if text in ("", "(null)", "None", "None assigned", "n/a", "N/A"):
        return ()
    names: dict[str, None] = {}
    for part in _split(text):
        for name in _expand_part(part, limit):
            names[name] = None
            if len(names) > limit:
                raise SchedulerError(f"more than {limit} nodes in one list")
    return tuple(names)


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
        if depth not in (0, 1):
            raise SchedulerError(f"malformed node list {text[:80]!r}")
    if depth:
        raise SchedulerError(f"malformed node list {text[:80]!r}")
    yield text[start:]


def _expand_part(part: str, limit: int) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        if not NODE_NAME.match(part):
            raise SchedulerError(f"malformed node name {part[:80]!r}")
        yield part
        return
    ranges, _, tail = rest.partition("]")
    # one more than allowed is enough to be refused by the caller; several brackets multiply
    tails = tuple(islice(_expand_part(f"x{tail}", limit), limit + 1)) if "[" in tail else (f"x{tail}",)
    for piece in ranges.split(","):
        found = _RANGE.match(piece)
        if not found:
            raise SchedulerError(f"malformed node list {part[:80]!r}")
        low, high = found[1], found[2] or found[1]
        if int(high) < int(low) or int(high) - int(low) >= limit:
            raise SchedulerError(f"range {piece[:40]!r} is empty or longer than {limit}")
        for number in range(int(low), int(high) + 1):
            for end in tails:
                name = f"{head}{number:0{len(low)}d}{end[1:]}"
                if not NODE_NAME.match(name):
                    raise SchedulerError(f"malformed node name {name[:80]!r}")
                yield name
