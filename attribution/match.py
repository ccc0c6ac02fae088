"""Lines x signatures -> matches; the only importer of the regex engine.

Two passes. The first runs the relaxed expressions (`attribution.signatures.relax`) over whole newline-aligned buffers
and says which lines may match what: Hyperscan where its wheel is installed, literals and `re` on bytes elsewhere, with
equal results. The second runs the signatures' own patterns on the few lines that hit.

A file may consist of matching lines only (progress, benign warnings). Then the second pass would cost more than
everything else, so the first pass thins: of lines on which only `Signature.dense` rules hit, the first
`EXACT_DENSE` of a kind are exact and later ones are sampled ever more thinly, at places that do not alias with the
number of ranks; `Candidate.weight` tells how many lines a kept one stands for, and the last `RECENT` dropped progress
lines can be asked for at the end. Any other kind is exact up to `EXACT` lines. Which lines are kept depends on the
file's content alone, never on the cut into blocks nor on the engine.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from attribution.model import Line, Match, RuleError
from attribution.resources import read_cache, write_cache
from attribution.signatures.relax import Relaxed
from attribution.signatures.rules import MAX_MESSAGE, RuleSet

#: Lines of one kind (set of candidate signatures) per file that are kept before thinning begins.
EXACT_DENSE = 1_024
EXACT = 50_000
#: Dropped progress lines that `Sampler.recent` remembers, newest last, and the bytes kept of each.
RECENT = 64
RECENT_BYTES = 4_096

#: ANSI escape sequences: the message has none, so a line that holds some is looked at without them as well.
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


class Candidate(NamedTuple):
    """A line that may match: byte span in the block without its line end, signature indexes, lines it stands for."""

    start: int
    end: int
    signatures: tuple[int, ...]
    weight: int = 1


class Skipped(NamedTuple):
    """A progress line that was thinned out: 1-based line, byte offset in the file, raw bytes, signature indexes."""

    line: int
    offset: int
    raw: bytes
    signatures: tuple[int, ...]


class Sampler:
    """Thins the candidates of one file. Feed its blocks in order; one sampler per file."""

    __slots__ = ("_counts", "_dense", "_pending", "_steps", "offset", "recent")

    def __init__(self, dense: frozenset[int], steps: frozenset[int]) -> None:
        self._dense, self._steps = dense, steps
        self._counts: dict[tuple[int, ...], int] = {}
        self._pending: dict[tuple[int, ...], int] = {}
        self.recent: deque[Skipped] = deque(maxlen=RECENT)
        self.offset = 0

    def weight(self, key: tuple[int, ...]) -> int:
        """Lines that this line of kind `key` stands for, 0 where it is thinned out."""
        n = self._counts.get(key, 0)
        self._counts[key] = n + 1
        if n < EXACT_DENSE:
            return 1
        exact = EXACT_DENSE if self._dense.issuperset(key) else EXACT
        if n < exact:
            return 1
        stride = 1 << (n // exact).bit_length()
        # Multiples of the golden ratio are spread evenly and alias with no number of interleaved ranks.
        if (n * 2_654_435_769) & 0xFFFF_FFFF >= (1 << 32) // stride:
            self._pending[key] = self._pending.get(key, 0) + 1
            return 0
        return 1 + self._pending.pop(key, 0)

    def wants_recent(self, key: tuple[int, ...]) -> bool:
        """True where dropped lines of this kind are progress that must not be lost at the file's end."""
        return not self._steps.isdisjoint(key)


class _Engine(Protocol):
    """Finds (end offset within the line, expression number) for every expression that hits a line."""

    name: str

    def hits(self, data: bytes | bytearray) -> list[tuple[int, int]]:
        """Hits in ascending order of the offset."""
        ...


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
        table: dict[tuple[str, bool], list[int]] = {}
        relaxed: dict[tuple[str, bool], Relaxed] = {}
        for signature in ruleset.signatures:
            for pattern in signature.any:
                r = pattern.relaxed
                key = (r.expression, r.ignore_case)
                relaxed[key] = r
                owners = table.setdefault(key, [])
                if signature.index not in owners:
                    owners.append(signature.index)
        self._owners = tuple(tuple(v) for v in table.values())
        self._engine = _make(engine, tuple(relaxed[k] for k in table))
        self._own_sampler = self.sampler()

    @property
    def engine(self) -> str:
        """Name of the engine in use."""
        return self._engine.name

    @cached_property
    def _dense(self) -> frozenset[int]:
        return frozenset(s.index for s in self.ruleset.signatures if s.dense)

    @cached_property
    def _steps(self) -> frozenset[int]:
        return frozenset(s.index for s in self.ruleset.signatures if "step" in s.marks)

    def sampler(self) -> Sampler:
        """A fresh sampler, for one file."""
        return Sampler(self._dense, self._steps)

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
        buffer = data if isinstance(data, bytes | bytearray) else _buffer(data)
        hits = self._hits(buffer)
        out: list[Candidate] = []
        for start, end, key in _lines(buffer, hits, self._owners):
            weight = sampler.weight(key)
            if weight:
                out.append(Candidate(start, end, key, weight))
            elif sampler.wants_recent(key):
                raw = bytes(buffer[start : min(end, start + RECENT_BYTES)])
                sampler.recent.append(Skipped(0, sampler.offset + start, raw, key))
        _number(sampler, buffer, first_line)
        sampler.offset += len(buffer)
        return out

    def _hits(self, buffer: bytes | bytearray) -> list[tuple[int, int]]:
        hits = self._engine.hits(buffer)
        if b"\x1b" in buffer:
            hits = sorted({*hits, *_without_escapes(buffer, self._engine)})
        return hits

    def candidates(self, text: str) -> tuple[int, ...]:
        """Signatures that may match one message."""
        found = {owner for _, e in self._hits(text.encode("utf-8", "replace")) for owner in self._owners[e]}
        return tuple(sorted(found))

    def match_line(self, line: Line, frames: Sequence[str] = ()) -> list[Match]:
        """All matches of one line that no scan has looked at."""
        return self.verify(line, self.candidates(line.text[:MAX_MESSAGE]), frames)

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


def _number(sampler: Sampler, buffer: bytes | bytearray, first_line: int) -> None:
    """Give the dropped progress lines of this block that are still remembered their line numbers."""
    low = sampler.offset
    line, at = first_line, 0
    for i, skipped in enumerate(sampler.recent):
        if skipped.offset >= low:
            start = skipped.offset - low
            line += buffer.count(b"\n", at, start)
            at = start
            sampler.recent[i] = skipped._replace(line=line)


def _without_escapes(buffer: bytes | bytearray, engine: _Engine) -> list[tuple[int, int]]:
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
    for end, expression in engine.hits(b"\n".join(pieces)):
        while end >= limits[which]:
            which += 1
        out.append((starts[which] + 1, expression))
    return out


def _make(engine: str, expressions: tuple[Relaxed, ...]) -> _Engine:
    if engine not in ("auto", "hyperscan", "python"):
        raise RuleError(f"unknown engine {engine!r}", mend="auto, hyperscan or python")
    if engine != "python":
        try:
            return _Hyperscan(expressions)
        except ImportError as error:
            if engine == "hyperscan":
                raise RuleError("hyperscan is not installed", mend="pip install hyperscan") from error
    return PythonEngine(expressions)


class _Hyperscan:
    """The Hyperscan engine (the wheel bundles Vectorscan), one block database for all expressions."""

    name = "hyperscan"

    def __init__(self, expressions: tuple[Relaxed, ...]) -> None:
        import hyperscan

        self._hs: Any = hyperscan
        self._found: list[tuple[int, int]] = []
        self._on_hit = self._callback(self._found.append)
        self._db = self._database(expressions) if expressions else None

    @staticmethod
    def _callback(keep: Callable[[tuple[int, int]], None]) -> Callable[[int, int, int, int, Any], None]:
        def on_hit(expression: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            keep((end, expression))

        return on_hit

    def hits(self, data: bytes | bytearray) -> list[tuple[int, int]]:
        """Hits in ascending order of the offset."""
        if self._db is None or not data:
            return []
        self._found.clear()
        self._db.scan(data, match_event_handler=self._on_hit)
        self._found.sort()
        return self._found.copy()

    def _database(self, expressions: tuple[Relaxed, ...]) -> Any:
        hs = self._hs
        texts = [r.expression.encode("ascii") for r in expressions]
        flags = [hs.HS_FLAG_CASELESS if r.ignore_case else 0 for r in expressions]
        name = f"engine-{self._key(texts, flags)[:32]}.hs"
        stored = read_cache(name)
        if stored is not None and hashlib.sha256(stored[32:]).digest() == stored[:32]:
            try:
                db = hs.loadb(stored[32:], hs.HS_MODE_BLOCK)
                db.scratch = hs.Scratch(db)
            except hs.HyperscanError:
                pass  # written by another build of the library: compiled anew below
            else:
                return db
        db = self._compile(texts, flags)
        dumped = hs.dumpb(db)
        write_cache(name, hashlib.sha256(dumped).digest() + dumped)
        return db

    def _key(self, texts: Sequence[bytes], flags: Sequence[int]) -> str:
        digest = hashlib.sha256(f"{self._hs.__version__} {platform.machine()} {_cpu_flags()}".encode())
        for text, flag in zip(texts, flags, strict=True):
            digest.update(b"%d %d " % (flag, len(text)) + text)
        return digest.hexdigest()

    def _compile(self, texts: Sequence[bytes], flags: Sequence[int]) -> Any:
        try:
            return self._build(texts, flags)
        except self._hs.HyperscanError:
            return self._build(texts, [self._mild(t, f) for t, f in zip(texts, flags, strict=True)])

    def _build(self, texts: Sequence[bytes], flags: Sequence[int]) -> Any:
        db = self._hs.Database(mode=self._hs.HS_MODE_BLOCK)
        db.compile(expressions=list(texts), ids=list(range(len(texts))), elements=len(texts), flags=list(flags))
        return db

    def _mild(self, text: bytes, flag: int) -> int:
        """Flags with which the engine takes an expression: some that are too large pass as a coarser prefilter."""
        for extra in (0, self._hs.HS_FLAG_PREFILTER):
            try:
                self._build([text], [flag | extra])
            except self._hs.HyperscanError:
                continue
            return int(flag | extra)
        raise RuleError(f"the engine refuses the expression {text.decode('ascii')!r}", mend="simplify the pattern")


def _cpu_flags() -> str:
    """Digest of the CPU's features: a database is compiled for them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return platform.processor()
    line = next((x for x in text.splitlines() if x.startswith(("flags", "Features"))), "")
    return hashlib.sha256(line.encode()).hexdigest()[:16]


class PythonEngine:
    """The engine without a wheel: literals by `bytes.find`, then the relaxed expression by `re` on the line."""

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

    def hits(self, data: bytes | bytearray) -> list[tuple[int, int]]:
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
