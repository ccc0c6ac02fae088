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
from attribution.match.sampling import Sampler
from attribution.model import Source
from attribution.resources import read_cache, write_cache
from attribution.shapes import NONE, ShapeCounter, Shaped
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
    """The shapes of one file and what may match them."""

    def __init__(self, shapes: ShapeMatcher, path: str, source: Source) -> None:
        self._shapes, self._source = shapes, source
        self.counter = ShapeCounter(path)
        self._kinds: list[Kind] = []
        self._hit = np.zeros(1024, dtype=bool)

    def candidates(self, block: Block, sampler: Sampler) -> list[FoundLine]:
        """Lines of the block that may match, in order, thinned as `Matcher.scan_block` thins."""
        shaped = self.counter.feed(block)
        self._learn()
        spans = self._spans(block, shaped)
        by_kind: dict[Kind, list[int]] = {}
        for i, span in enumerate(spans):
            by_kind.setdefault(span[2], []).append(i)
        kept: dict[int, int] = {}
        for kind, places in by_kind.items():
            kept.update((places[i], weight) for i, weight in sampler.weights(kind, len(places)))
        sampler.remember(block.buffer, block.first_line, [s[:3] for i, s in enumerate(spans) if i not in kept])
        return [FoundLine(Candidate(*spans[i][:3], kept[i]), block.first_line + spans[i][3]) for i in sorted(kept)]

    def _learn(self) -> None:
        known = len(self._kinds)
        if known == len(self.counter):
            return
        fresh = self._shapes.kinds(self.counter.fresh(known), self._source)
        self._kinds.extend(fresh)
        if len(self._kinds) > len(self._hit):
            self._hit = np.concatenate((self._hit, np.zeros(len(self._kinds), dtype=bool)))
        self._hit[known : known + len(fresh)] = [bool(k) for k in fresh]

    def _spans(self, block: Block, shaped: Shaped) -> list[tuple[int, int, Kind, int]]:
        """Lines (the last field counts from the block's first) with what may match them: by shape, or by their bytes where a segment has no shape."""
        if not len(shaped.ids):
            return []
        bare = shaped.ids == NONE
        wanted = self._hit[np.where(bare, 0, shaped.ids)] & ~bare
        chosen = np.flatnonzero(wanted | bare)
        if not len(chosen):
            return []
        buffer = block.buffer
        ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == 10)
        lines = np.searchsorted(ends, shaped.starts[chosen])
        out: list[tuple[int, int, Kind, int]] = []
        size = len(block.data)
        before = -1
        for line, shape in zip(lines.tolist(), shaped.ids[chosen].tolist(), strict=True):
            if line != before:
                start = int(ends[line - 1]) + 1 if line else 0
                end = int(ends[line]) if line < len(ends) else size
                out.append((start, end, (), line))
                before = line
            start, end, kind, _ = out[-1]
            more = self._kinds[shape] if shape != NONE else self._bytes(bytes(buffer[start:end]))
            if more and more != kind:
                out[-1] = (start, end, tuple(sorted({*kind, *more})) if kind else more, line)
        return [s for s in out if s[2]]

    def _bytes(self, raw: bytes) -> Kind:
        """What may match a line that has no shape."""
        return self._shapes.matcher.candidates(raw.decode("utf-8", "replace"), self._source)
