"""The one line of an episode that a reader is shown first."""

from __future__ import annotations

from attribution.model import Episode, Match, Role


def most_telling(episode: Episode) -> Match:
    """The first initiating match, unless a more specific one of the same class stands within a few lines of it.

    A launcher's line about an exception and the exception itself are one trouble; the reader wants the exception.
    """
    first = episode.initiating[0]
    near = [
        m
        for m in episode.initiating
        if m.place.path == first.place.path and abs(m.place.line - first.place.line) <= 12 and m.role is Role.ROOT
    ]
    return max(near, key=lambda m: (m.specificity, -m.place.offset), default=first)
