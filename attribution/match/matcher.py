"""The two passes over one rule set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from attribution.match.engines import engine_name, make
from attribution.match.sampling import Sampler
from attribution.model import Line, Match, Role, Source
from attribution.signatures.relax import relax
from attribution.signatures.rules import MAX_MESSAGE, RuleSet, Signature

#: ANSI escape sequences: the message has none, so a line that holds some is looked at without them as well.
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
#: Words of an exception line that several processes wrote into each other, and the name in them.
_MERGED = r"(?:Error|Exception|Interrupt)[\w.: ]*(?:Error|Exception|Interrupt)[.: ]*: "
_EXCEPTION = re.compile(rb"([A-Z]\w{2,60}?(?:Error|Exception|Interrupt))")

_Span = tuple[int, int, tuple[int, ...]]


class Candidate(NamedTuple):
    """A line that may match: byte span in the block without its line end, signature indexes, lines it stands for."""

    start: int
    end: int
    signatures: tuple[int, ...]
    weight: int = 1


class _FirstPass:
    """Some signatures' relaxed expressions in one engine.

    Two expressions of our own stand behind the signatures': they say which lines need a second look, those with escape
    sequences and those into which several processes wrote at once.
    """

    def __init__(self, signatures: Iterable[Signature], engine: str) -> None:
        owners: dict[tuple[str, bool], list[int]] = {}
        relaxed = {}
        for signature in signatures:
            for pattern in signature.any:
                r = pattern.relaxed
                key = (r.expression, r.ignore_case)
                relaxed[key] = r
                mine = owners.setdefault(key, [])
                if signature.index not in mine:
                    mine.append(signature.index)
        self.owners = tuple(tuple(v) for v in owners.values())
        self.engine = make(engine, (*(relaxed[k] for k in owners), relax("\x1b"), relax(_MERGED)))

    def hits(self, data: bytes | bytearray | memoryview) -> list[tuple[int, int]]:
        """Raw hits, those of our own expressions among them."""
        return self.engine.hits(data)

    def spans(self, buffer: bytes | bytearray, hits: list[tuple[int, int]]) -> list[_Span]:
        """Lines that were hit: start, end and sorted signature indexes."""
        return _lines(buffer, self._own(buffer, hits), self.owners)

    def _own(self, buffer: bytes | bytearray, hits: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The signatures' hits, with those of lines that needed a second look."""
        escape = len(self.owners)
        special = [h for h in hits if h[1] >= escape]
        if not special:
            return hits
        plain = {h for h in hits if h[1] < escape}
        if any(e == escape for _, e in special):
            plain.update(self._without_escapes(buffer))
        for at, e in special:
            if e != escape:
                plain.update((at, x) for _, x in self.engine.hits(_unmerged(_line_at(buffer, at))))
        return sorted(h for h in plain if h[1] < escape)

    def _without_escapes(self, buffer: bytes | bytearray) -> list[tuple[int, int]]:
        """Hits of the lines that hold escape sequences, with those taken out; offsets point into the original lines."""
        starts: list[int] = []
        pieces: list[bytes] = []
        at = buffer.find(b"\x1b")
        while at >= 0:
            start = buffer.rfind(b"\n", 0, at) + 1
            end = buffer.find(b"\n", at)
            end = len(buffer) if end < 0 else end
            starts.append(start)
            pieces.append(_ANSI.sub(b"", bytes(buffer[start:end])))
            at = buffer.find(b"\x1b", end)
        out: list[tuple[int, int]] = []
        limits: list[int] = []
        total = 0
        for piece in pieces:
            total += len(piece) + 1
            limits.append(total)
        which = 0
        for end, expression in self.engine.hits(b"\n".join(pieces)):
            while end >= limits[which]:
                which += 1
            out.append((starts[which] + 1, expression))
        return out


def _only_silences(signature: Signature) -> bool:
    """True for noise rules: alone on a line they change nothing."""
    return signature.role is Role.NOISE and not signature.marks and signature.table is None


class Matcher:
    """One rule set, compiled for one engine. Not thread-safe: the engine's scratch space belongs to it.

    Args:
        ruleset: the signatures.
        engine: ``hyperscan``, ``python``, or ``auto`` for the first that is installed.

    Raises:
        RuleError: `engine` is not installed, or refuses an expression.
    """

    def __init__(self, ruleset: RuleSet, engine: str = "auto") -> None:
        self.ruleset = ruleset
        self._wanted = engine
        self._passes: dict[Source | None, tuple[_FirstPass, _FirstPass]] = {}
        self._own_sampler = self.sampler()
        self.engine = engine_name(engine)

    def _pass(self, source: Source | None) -> tuple[_FirstPass, _FirstPass]:
        """First passes of the rules that speak and of those that only silence, for logs of one kind; built when used."""
        if source not in self._passes:
            mine = [s for s in self.ruleset.signatures if source is None or source in s.sources]
            self._passes[source] = (
                _FirstPass((s for s in mine if not _only_silences(s)), self._wanted),
                _FirstPass((s for s in mine if _only_silences(s)), self._wanted),
            )
        return self._passes[source]

    @cached_property
    def _dense(self) -> frozenset[int]:
        return frozenset(s.index for s in self.ruleset.signatures if s.dense)

    @cached_property
    def _steps(self) -> frozenset[int]:
        return frozenset(s.index for s in self.ruleset.signatures if "step" in s.marks)

    def sampler(self, source: Source | None = None) -> Sampler:
        """A fresh sampler, for one file; its kind of log, where given, leaves out the rules that do not read such."""
        return Sampler(self._dense, self._steps, source)

    def scan_block(
        self, data: memoryview | bytes | bytearray, first_line: int = 1, sampler: Sampler | None = None
    ) -> list[Candidate]:
        """Lines of a block that may match, in order.

        Args:
            data: whole lines; the last one may lack its line end.
            first_line: 1-based number of the block's first line.
            sampler: the file's sampler. Without one the matcher keeps its own, which a block that begins at line 1
                resets: enough for a caller that reads one file after the other.
        """
        if sampler is None:
            if first_line == 1:
                self._own_sampler = self.sampler()
            sampler = self._own_sampler
        main, noise = self._pass(sampler.source)
        hits = main.hits(data)
        if not hits:
            sampler.offset += len(data)
            return []
        buffer = data if isinstance(data, bytes | bytearray) else _buffer(data)
        out: list[Candidate] = []
        thinned: list[_Span] = []
        weigh = sampler.weight
        for span in main.spans(buffer, hits):
            weight = weigh(span[2])
            if weight:
                out.append(Candidate(*span, weight))
            else:
                thinned.append(span)
        sampler.remember(buffer, first_line, thinned)
        return _with_noise(noise, buffer, out)

    def candidates(self, text: str, source: Source | None = None) -> tuple[int, ...]:
        """Signatures that may match one message, of a log of that kind where one is given."""
        data = text.replace("\n", " ").encode("utf-8", "replace")
        found: set[int] = set()
        for part in self._pass(source):
            for _, _, owners in part.spans(data, part.hits(data)):
                found.update(owners)
        return tuple(sorted(found))

    def match_line(self, line: Line, frames: Sequence[str] = ()) -> list[Match]:
        """All matches of one line that no scan has looked at."""
        return self.verify(line, self.candidates(line.text[:MAX_MESSAGE], line.place.source), frames)

    def verify(self, line: Line, candidates: Sequence[int], frames: Sequence[str] = ()) -> list[Match]:
        """Run the candidates' own patterns on the message.

        Returns:
            Every signature that recognises the line in a log of its kind, the most specific first, then by id.
        """
        text, above = line.text[:MAX_MESSAGE], tuple(frames)
        out: list[Match] = []
        for index in candidates:
            signature = self.ruleset.signatures[index]
            if line.place.source not in signature.sources:
                continue
            fields = signature.find(text, above)
            if fields is not None:
                out.append(self.ruleset.match(signature, line, fields, above))
        if len(out) > 1:
            out.sort(key=lambda m: (-m.specificity, m.signature))
        return out


def _with_noise(noise: _FirstPass, buffer: bytes | bytearray, found: list[Candidate]) -> list[Candidate]:
    """The same lines, with the noise rules that hit them too."""
    if not found or not noise.owners:
        return found
    joined = b"\n".join(buffer[c.start : c.end] for c in found)
    spans = noise.spans(joined, noise.hits(joined))
    at, number = 0, 0
    for start, _, silencing in spans:
        while at < start:
            at += found[number].end - found[number].start + 1
            number += 1
        c = found[number]
        found[number] = c._replace(signatures=tuple(sorted({*c.signatures, *silencing})))
    return found


def _buffer(data: memoryview) -> bytes | bytearray:
    """The object under a view where the view covers all of it, else a copy: views can search nothing."""
    under = data.obj
    if isinstance(under, bytes | bytearray) and len(under) == data.nbytes:
        return under
    return bytes(data)


def _lines(
    buffer: bytes | bytearray, hits: list[tuple[int, int]], owners: tuple[tuple[int, ...], ...]
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Hits by line: start, end, sorted signature indexes."""
    out: list[tuple[int, int, tuple[int, ...]]] = []
    start, end = 0, -1
    seen: set[int] = set()
    kinds: dict[frozenset[int], tuple[int, ...]] = {}
    for at, expression in hits:
        if at > end:
            if seen:
                out.append((start, end, _kind(seen, owners, kinds)))
                seen = set()
            start = buffer.rfind(b"\n", max(end, 0), at) + 1 or max(end, 0)
            end = buffer.find(b"\n", at)
            end = len(buffer) if end < 0 else end
        seen.add(expression)
    if seen:
        out.append((start, end, _kind(seen, owners, kinds)))
    return out


def _kind(
    seen: set[int], owners: tuple[tuple[int, ...], ...], kinds: dict[frozenset[int], tuple[int, ...]]
) -> tuple[int, ...]:
    if len(seen) == 1:
        return owners[next(iter(seen))]
    key = frozenset(seen)
    found = kinds.get(key)
    if found is None:
        found = kinds[key] = tuple(sorted({o for e in seen for o in owners[e]}))
    return found


def _line_at(buffer: bytes | bytearray, at: int) -> bytes:
    """The line that holds the byte before `at`."""
    start = buffer.rfind(b"\n", 0, at) + 1
    end = buffer.find(b"\n", at)
    return bytes(buffer[start : len(buffer) if end < 0 else end])


def _unmerged(line: bytes) -> bytes:
    """The exception that several processes wrote into each other, as one of them meant it (see `sources.prefix`)."""
    name = _EXCEPTION.search(line)
    if name is None:
        return b""
    last = line.rfind(name.group(1)) + len(name.group(1))
    return name.group(1) + b": " + line[last:].lstrip(b".: ")
