"""What one line cannot say: counts in a window, A then B, one unit or many, an error without a later success.

Correlation documents (``rules/correlation/*.yaml``) are evaluated over the matches of one attempt and give further
matches; nothing is taken away. The new match stands where the line stands that completes the picture (count, units) or
where the trouble began (sequence, without), and its fields name the signature, the unit and the number seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from attribution.model import Evidence, Match
from attribution.signatures.rules import Correlation, RuleSet


def correlate(rules: RuleSet, matches: Sequence[Match]) -> list[Match]:
    """Matches that the correlation documents add to those of one attempt.

    Args:
        rules: holds the documents, sorted by id.
        matches: in the order of the attempt; shadow matches count for nothing. A window needs time stamps: where a
            document has one and a match has no time, that match is left out, since unknown is not "at the same time".

    Returns:
        New matches in the order of the documents, then of the matches.
    """
    live = [m for m in matches if not m.shadow]
    out: list[Match] = []
    for rule in rules.correlations:
        out += _KINDS[rule.kind](rule, _of(rule, live), live)
    return out


def with_correlations(rules: RuleSet, evidence: Evidence) -> Evidence:
    """The evidence with the correlations' matches put behind the line that each stands on."""
    extra = correlate(rules, evidence.matches)
    if not extra:
        return evidence
    behind: dict[tuple[str, int], list[Match]] = defaultdict(list)
    for match in extra:
        behind[(match.place.path, match.place.offset)].append(match)
    out: list[Match] = []
    for i, match in enumerate(evidence.matches):
        out.append(match)
        here = (match.place.path, match.place.offset)
        following = evidence.matches[i + 1].place if i + 1 < len(evidence.matches) else None
        if following is None or (following.path, following.offset) != here:
            out += behind.pop(here, [])
    return replace(evidence, matches=tuple(out))


def _named(names: Iterable[str], match: Match) -> bool:
    for name in names:
        if name == match.signature or name == match.failure_class:
            return True
        if name.endswith(".*") and match.failure_class is not None and match.failure_class.startswith(name[:-1]):
            return True
    return False


def _of(rule: Correlation, matches: Sequence[Match]) -> list[Match]:
    """Matches that the rule looks at: named, with the captured values, and with a time where a window asks for it."""
    return [
        m
        for m in matches
        if _named(rule.of, m)
        and all(m.fields.get(k) in values for k, values in rule.fields.items())
        and (rule.within_s is None or m.place.time_s is not None)
    ]


def unit_of(kind: str, match: Match) -> str | None:
    """The thing that a match speaks about, None where the line does not tell. GPUs of two hosts are two units."""
    host = match.place.host or match.fields.get("node")
    if kind == "attempt":
        return "attempt"
    if kind == "node":
        return host
    if kind == "rank":
        rank = match.place.rank if match.place.rank is not None else match.fields.get("rank")
        return None if rank is None else str(rank)
    if kind == "file":
        return match.place.path
    gpu = match.fields.get("pci") or match.fields.get("gpu")
    return None if gpu is None else f"{host or ''}/{gpu}"


def _units(rule: Correlation, matches: Sequence[Match]) -> dict[str, list[Match]]:
    out: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        unit = unit_of(rule.unit, match)
        if unit is not None:
            out[unit].append(match)
    return out


def _near(rule: Correlation, first: Match, later: Match) -> bool:
    """True where `later` is no earlier than `first` and inside the window; without clocks the file's order decides."""
    a, b = first.place, later.place
    if a.time_s is not None and b.time_s is not None:
        return b.time_s >= a.time_s and (rule.within_s is None or b.time_s - a.time_s <= rule.within_s)
    return rule.within_s is None and (a.path != b.path or b.offset > a.offset)


def _made(rule: Correlation, at: Match, unit: str, count: int) -> Match:
    fields = dict(at.fields)
    fields |= {"correlated": at.signature, "unit": unit, "seen": str(count)}
    return replace(
        at,
        signature=rule.id,
        role=rule.role,
        failure_class=rule.failure_class,
        fields=fields,
        marks=frozenset(),
        specificity=rule.specificity,
        count=1,
        last=None,
        frames=(),
    )


def _count(rule: Correlation, of: Sequence[Match], _all: Sequence[Match]) -> list[Match]:
    """The same on one unit, `at_least` times within the window."""
    out: list[Match] = []
    for unit, some in _units(rule, of).items():
        events = _events(rule, some)
        first = 0
        seen = 0
        for match, count in events:
            seen += count
            while events[first][0] is not match and not _near(rule, events[first][0], match):
                seen -= events[first][1]
                first += 1
            if seen >= rule.at_least:
                out.append(_made(rule, match, unit, seen))
                break
    return out


def _events(rule: Correlation, matches: Sequence[Match]) -> list[tuple[Match, int]]:
    """Matches and how often each counts: one fault may print many lines at once, which `apart_s` makes one event."""
    if not rule.apart_s:
        return [(m, m.count) for m in matches]
    out: list[tuple[Match, int]] = []
    for match in matches:
        at, before = match.place.time_s, out[-1][0].place.time_s if out else None
        if at is None or before is None or at - before >= rule.apart_s:
            out.append((match, 1))
    return out


def _sequence(rule: Correlation, of: Sequence[Match], matches: Sequence[Match]) -> list[Match]:
    """`of`, then `then` on the same unit within the window; the new match stands at the first."""
    later = _units(rule, [m for m in matches if _named(rule.then, m)])
    out: list[Match] = []
    for unit, some in _units(rule, of).items():
        found = next((m for m in some if any(_near(rule, m, b) and b is not m for b in later.get(unit, ()))), None)
        if found is not None:
            out.append(_made(rule, found, unit, 1))
    return out


def _many_units(rule: Correlation, of: Sequence[Match], _all: Sequence[Match]) -> list[Match]:
    """The same signature on `at_least` distinct units within the window; one match for the attempt."""
    by_signature: dict[str, list[Match]] = defaultdict(list)
    for match in of:
        by_signature[match.signature].append(match)
    for some in by_signature.values():
        for i, first in enumerate(some):
            units: dict[str, None] = {}
            for match in some[i:]:
                unit = unit_of(rule.unit, match)
                if unit is not None and (match is first or _near(rule, first, match)):
                    units[unit] = None
            if len(units) >= rule.at_least:
                return [_made(rule, first, ",".join(list(units)[:16]), len(units))]
    return []


def _without(rule: Correlation, of: Sequence[Match], matches: Sequence[Match]) -> list[Match]:
    """`of` that no `then` on the same unit follows (within the window, where one is given)."""
    later = _units(rule, [m for m in matches if _named(rule.then, m)])
    out: list[Match] = []
    for unit, some in _units(rule, of).items():
        alone = [m for m in some if not any(_near(rule, m, good) for good in later.get(unit, ()))]
        if alone and len(alone) >= rule.at_least:
            out.append(_made(rule, alone[0], unit, len(alone)))
    return out


_KINDS: dict[str, Callable[[Correlation, Sequence[Match], Sequence[Match]], list[Match]]] = {
    "count": _count,
    "sequence": _sequence,
    "units": _many_units,
    "without": _without,
}
