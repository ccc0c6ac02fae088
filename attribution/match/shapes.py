"""The first pass over shapes: each distinct shape of a file is looked at once, whatever the number of its lines.

`Matcher.scan_block` reads every line; this pass gives the same candidates, or more, for the cost of the distinct ones.
Segments without a shape of their own (too long, too many kinds) are read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from attribution.match.engines import make
from attribution.match.matcher import Candidate, Matcher, _FirstPass, _only_silences
from attribution.match.sampling import RECENT, RECENT_BYTES, Sampler, Skipped
from attribution.model import Source
from attribution.resources import read_cache, write_cache
from attribution.shapes import NONE, Ints, ShapeCounter, ShapeCounts, Shaped
from attribution.signatures.relax import Relaxed, relax
from attribution.signatures.rules import Pattern, RuleSet, Signature
from attribution.signatures.squeeze import squeezed
from attribution.sources.blocks import Block

Kind = tuple[int, ...]


class FoundLine(NamedTuple):
    """A candidate and the 1-based number of its line in the file."""

    candidate: Candidate
    line: int


class _Squeezed:
    """Squeezed expressions of a rule set's patterns, remembered over processes: making them costs a second."""

    _VERSION = 1

    def __init__(self, ruleset: RuleSet) -> None:
        self._name = f"squeezed-{self._VERSION}-{ruleset.digest[:32]}.json"
        self._known: dict[str, list[Any]] = {}
        stored = read_cache(self._name)
        if stored is not None:
            try:
                self._known = json.loads(stored)
            except ValueError:  # half written by somebody else: made anew
                self._known = {}
        self._fresh = False

    def of(self, pattern: Pattern) -> Relaxed:
        """The squeezed form of one pattern."""
        key = f"{int(pattern.ignore_case)}{pattern.source}"
        row = self._known.get(key)
        if row is None:
            r = squeezed(pattern.source, ignore_case=pattern.ignore_case)
            row = self._known[key] = [r.expression, [x.decode("latin-1") for x in r.literals], r.ignore_case, r.empty]
            self._fresh = True
        literals = tuple(x.encode("latin-1") for x in row[1])
        return Relaxed(expression=row[0], literals=literals, hazards=(), ignore_case=row[2], empty=row[3])

    def keep(self) -> None:
        """Store what was made anew."""
        if self._fresh:
            write_cache(self._name, json.dumps(self._known).encode())
            self._fresh = False


class _ShapePass(_FirstPass):
    """Signatures' squeezed expressions in one engine."""

    def __init__(self, signatures: Iterable[Signature], engine: str, forms: _Squeezed) -> None:
        owners: dict[tuple[str, bool], list[int]] = {}
        loose = {}
        for signature in signatures:
            for pattern in signature.any:
                r = forms.of(pattern)
                key = (r.expression, r.ignore_case)
                loose[key] = r
                mine = owners.setdefault(key, [])
                if signature.index not in mine:
                    mine.append(signature.index)
        self.owners = tuple(tuple(v) for v in owners.values())
        merged = r"(?:Error|Exception|Interrupt)[\w.: ]*(?:Error|Exception|Interrupt)[.: ]*: "
        self.engine = make(engine, (*(loose[k] for k in owners), relax("\x1b"), relax(merged)))


class ShapeMatcher:
    """Says which lines of a file's blocks may match, by their shapes. Shared by all files; `FileShapes` is per file."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self._passes: dict[Source, tuple[_ShapePass, _ShapePass]] = {}
        self._forms = _Squeezed(matcher.ruleset)

    def _of(self, source: Source) -> tuple[_ShapePass, _ShapePass]:
        """Passes of the rules that speak and of those that only silence, for logs of one kind; built when used."""
        if source not in self._passes:
            mine = [s for s in self.matcher.ruleset.signatures if source in s.sources]
            self._passes[source] = (
                _ShapePass((s for s in mine if not _only_silences(s)), self.matcher.engine, self._forms),
                _ShapePass((s for s in mine if _only_silences(s)), self.matcher.engine, self._forms),
            )
            self._forms.keep()
        return self._passes[source]

    def kinds(self, keys: list[bytes], source: Source) -> list[Kind]:
        """For each shape the signatures that may match its lines, noise rules only where another one may."""
        found: list[Kind] = [()] * len(keys)
        main, noise = self._of(source)
        hit = self._pass(main, keys, range(len(keys)), found)
        self._pass(noise, keys, hit, found)
        return found

    @staticmethod
    def _pass(first: _FirstPass, keys: list[bytes], which: Iterable[int], found: list[Kind]) -> list[int]:
        numbers = list(which)
        if not numbers or not first.owners:
            return []
        joined = b"\n".join(keys[n] for n in numbers)
        hits = first.hits(joined)
        out: list[int] = []
        if not hits:
            return out
        at, number = 0, 0
        for start, _, owners in first.spans(joined, hits):
            while at + len(keys[numbers[number]]) < start:
                at += len(keys[numbers[number]]) + 1
                number += 1
            n = numbers[number]
            found[n] = tuple(sorted({*found[n], *owners}))
            out.append(n)
        return out


class FileShapes:
    """The shapes of one file and what may match them.

    A *kind* is a set of signatures that may match; kinds are numbered, 0 is none. Lines are judged by the numbers of
    their segments' kinds, and only those that stay after thinning become objects.
    """

    def __init__(self, shapes: ShapeMatcher, path: str, source: Source) -> None:
        self._shapes, self._source = shapes, source
        self.counter = ShapeCounter(path)
        self._kinds: list[Kind] = [()]
        self._numbers: dict[Kind, int] = {(): 0}
        self._is_step = np.zeros(1, dtype=bool)
        self._known = 0
        self._kind_of = np.zeros(1024, dtype=np.int32)

    def candidates(self, block: Block, sampler: Sampler) -> list[FoundLine]:
        """Lines of the block that may match, in order, thinned as `Matcher.scan_block` thins."""
        shaped = self.counter.feed(block)
        self._learn(sampler)
        lines, kinds = self._lines(block, shaped, sampler)
        weights = np.zeros(len(lines), dtype=np.int64)
        for number in np.flatnonzero(np.bincount(kinds)).tolist() if len(kinds) else ():
            places = np.flatnonzero(kinds == number)
            for i, weight in sampler.weights(self._kinds[number], len(places)):
                weights[places[i]] = weight
        for i in np.flatnonzero((weights == 0) & self._is_step[kinds])[-RECENT:]:
            start, end, kind = self._span(block, shaped, lines[i], kinds[i])
            raw = bytes(block.data[start : min(end, start + RECENT_BYTES)])
            sampler.recent.append(Skipped(block.first_line + int(lines[i]), block.offset + start, raw, kind))
        return [
            FoundLine(
                Candidate(*self._span(block, shaped, lines[i], kinds[i]), int(weights[i])),
                block.first_line + int(lines[i]),
            )
            for i in np.flatnonzero(weights)
        ]

    def cut(self, block: Block, at: int) -> ShapeCounts:
        """Counts of what came before the line at `at` of the block looked at last; later ones begin anew."""
        return self.counter.cut(block, at)

    def _learn(self, sampler: Sampler) -> None:
        fresh = self.counter.fresh(self._known)
        if not fresh:
            return
        numbers = [self._number(k, sampler) for k in self._shapes.kinds(fresh, self._source)]
        if self._known + len(fresh) > len(self._kind_of):
            self._kind_of = np.concatenate((self._kind_of, np.zeros(self._known + len(fresh), dtype=np.int32)))
        self._kind_of[self._known : self._known + len(fresh)] = numbers
        self._known += len(fresh)

    def _number(self, kind: Kind, sampler: Sampler) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            self._is_step = np.append(self._is_step, sampler.is_step(kind))
        return number

    def _lines(self, block: Block, shaped: Shaped, sampler: Sampler) -> tuple[Ints, Ints]:
        """Lines that may match, counted from the block's first, and the numbers of their kinds."""
        bare = shaped.ids == NONE
        kinds = self._kind_of[np.where(bare, 0, shaped.ids)].astype(np.int64)
        kinds[bare] = 0
        chosen = np.flatnonzero((kinds > 0) | bare)
        if not len(chosen):
            return chosen, chosen
        kinds, bare = kinds[chosen], bare[chosen]
        lines = np.searchsorted(shaped.ends, shaped.starts[chosen])
        # Segments of one line speak together.
        first = np.flatnonzero(np.diff(lines, prepend=-1))
        if len(first) < len(lines) or bare.any():
            mixed = np.minimum.reduceat(kinds, first) != np.maximum.reduceat(kinds, first)
            mixed |= np.logical_or.reduceat(bare, first)
            ends = np.append(first[1:], len(lines))
            together = kinds[first]
            for g in np.flatnonzero(mixed).tolist():
                found = {s for n in set(kinds[first[g] : ends[g]].tolist()) for s in self._kinds[n]}
                if bare[first[g] : ends[g]].any():
                    start, end, _ = self._span(block, shaped, lines[first[g]], 0)
                    found.update(self._bytes(bytes(block.data[start:end])))
                together[g] = self._number(tuple(sorted(found)), sampler)
            full = np.flatnonzero(together)
            return lines[first][full], together[full]
        return lines, kinds

    def _span(self, block: Block, shaped: Shaped, line: int, kind: int) -> tuple[int, int, Kind]:
        """Where a line of the block begins and ends, and its kind."""
        start = int(shaped.ends[line - 1]) + 1 if line else 0
        end = int(shaped.ends[line]) if line < len(shaped.ends) else len(block.data)
        return start, end, self._kinds[kind]

    def _bytes(self, raw: bytes) -> Kind:
        """What may match a line that has no shape."""
        return self._shapes.matcher.candidates(raw.decode("utf-8", "replace"), self._source)
