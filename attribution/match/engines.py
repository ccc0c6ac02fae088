"""Engines of the first pass: which expressions hit where. The only module that imports Hyperscan."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from attribution.model import RuleError
from attribution.resources import read_cache, write_cache
from attribution.signatures.generate import texts
from attribution.signatures.relax import Relaxed
from attribution.signatures.rules import Pattern

#: Texts per expression on which a fresh database proves itself, and databases that share what earlier ones missed.
_PROBES = 3
_ROUNDS = 4
_FILLER = b"2026-01-01 00:00:00,000 INFO loader: 123 files, nothing to see here" * 2


class Engine(Protocol):
    """Finds (end offset, expression number), at least once per line and expression that hits it."""

    name: str

    def hits(self, data: bytes | bytearray | memoryview) -> list[tuple[int, int]]:
        """Hits in ascending order of the offset."""
        ...


def engine_name(engine: str) -> str:
    """The engine that a name stands for; ``auto`` is Hyperscan where it is installed.

    Raises:
        RuleError: there is no such engine here.
    """
    if engine not in ("auto", "hyperscan", "python"):
        raise RuleError(f"unknown engine {engine!r}", mend="auto, hyperscan or python")
    here = importlib.util.find_spec("hyperscan") is not None
    if engine == "hyperscan" and not here:
        raise RuleError("hyperscan is not installed", mend="pip install hyperscan")
    return "hyperscan" if here and engine != "python" else "python"


def make(engine: str, expressions: tuple[Relaxed, ...]) -> Engine:
    """Compile expressions for the engine of that name.

    Raises:
        RuleError: there is no such engine here, or it refuses an expression.
    """
    if engine_name(engine) == "hyperscan":
        return HyperscanEngine(expressions)
    from attribution.match.plain import PlainEngine  # numpy is loaded only where it is needed

    return PlainEngine(expressions)


class HyperscanEngine:
    """The Hyperscan engine (the wheel bundles Vectorscan).

    Vectorscan has bugs by which a database of many expressions misses some (its issue 358; we met it with two
    expressions that share a variable head). So every fresh database proves itself on texts generated from each of its
    expressions, alone and among others; what it misses moves to a further database, alone in the end.
    """

    name = "hyperscan"

    def __init__(self, expressions: tuple[Relaxed, ...]) -> None:
        import hyperscan

        self._hs: Any = hyperscan
        self._found: list[tuple[int, int]] = []
        self._on_hit = self._callback(self._found.append)
        self._texts = [r.expression.encode("ascii") for r in expressions]
        self._flags = [hyperscan.HS_FLAG_CASELESS if r.ignore_case else 0 for r in expressions]
        self._dbs: list[Any] = self._databases() if expressions else []

    @staticmethod
    def _callback(keep: Callable[[tuple[int, int]], None]) -> Callable[[int, int, int, int, Any], None]:
        def on_hit(expression: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            keep((end, expression))

        return on_hit

    def hits(self, data: bytes | bytearray | memoryview) -> list[tuple[int, int]]:
        """Hits in ascending order of the offset."""
        self._found.clear()
        if len(data):
            for db in self._dbs:
                db.scan(data, match_event_handler=self._on_hit)
        self._found.sort()
        return self._found.copy()

    def _databases(self) -> list[Any]:
        hs = self._hs
        name = f"engine-{self._key()[:32]}.hs"
        stored = read_cache(name)
        if stored is not None and hashlib.sha256(stored[32:]).digest() == stored[:32]:
            try:
                dbs = [hs.loadb(part, hs.HS_MODE_BLOCK) for part in _unpacked(stored[32:])]
                for db in dbs:
                    db.scratch = hs.Scratch(db)
            except hs.HyperscanError:
                pass  # written by another build of the library: compiled anew below
            else:
                return dbs
        dbs = self._proven()
        packed = b"".join(len(part).to_bytes(8, "little") + part for part in map(hs.dumpb, dbs))
        write_cache(name, hashlib.sha256(packed).digest() + packed)
        return dbs

    def _key(self) -> str:
        digest = hashlib.sha256(f"2 {self._hs.__version__} {platform.machine()} {_cpu_flags()}".encode())
        for text, flag in zip(self._texts, self._flags, strict=True):
            digest.update(b"%d %d " % (flag, len(text)) + text)
        return digest.hexdigest()

    def _proven(self) -> list[Any]:
        """Databases that between them see a text of every expression."""
        probes = _probes(self._texts, self._flags)
        left = list(range(len(self._texts)))
        dbs: list[Any] = []
        for _ in range(_ROUNDS):
            db = self._compile(left)
            dbs.append(db)
            left = self._missed(db, left, probes)
            if not left:
                return dbs
        return dbs + [self._compile([expression]) for expression in left]

    def _missed(self, db: Any, expressions: Sequence[int], probes: dict[int, list[bytes]]) -> list[int]:
        """Expressions of the database of which it does not see every text, alone and among all others."""
        missed: set[int] = set()
        pieces: list[bytes] = []
        owner: list[int] = []
        for expression in expressions:
            for text in probes[expression]:
                pieces += (text, _FILLER)
                owner += (expression, -1)
                if expression not in self._seen(db, text):
                    missed.add(expression)
        whole = b"\n".join(pieces)
        self._found.clear()
        db.scan(whole, match_event_handler=self._on_hit)
        self._found.sort()
        at, end = 0, 0
        by_line: dict[int, set[int]] = {}
        for number, piece in enumerate(pieces):
            end += len(piece) + 1
            while at < len(self._found) and self._found[at][0] < end:
                by_line.setdefault(number, set()).add(self._found[at][1])
                at += 1
        missed |= {e for i, e in enumerate(owner) if e >= 0 and e not in by_line.get(i, ())}
        return sorted(missed)

    def _seen(self, db: Any, text: bytes) -> set[int]:
        self._found.clear()
        db.scan(text, match_event_handler=self._on_hit)
        return {expression for _, expression in self._found}

    def _compile(self, expressions: Sequence[int]) -> Any:
        flags = [self._flags[e] for e in expressions]
        try:
            return self._build(expressions, flags)
        except self._hs.HyperscanError:
            return self._build(expressions, [self._mild(e, f) for e, f in zip(expressions, flags, strict=True)])

    def _build(self, expressions: Sequence[int], flags: Sequence[int]) -> Any:
        db = self._hs.Database(mode=self._hs.HS_MODE_BLOCK)
        texts_ = [self._texts[e] for e in expressions]
        db.compile(expressions=texts_, ids=list(expressions), elements=len(texts_), flags=list(flags))
        return db

    def _mild(self, expression: int, flag: int) -> int:
        """Flags with which the engine takes an expression: some that are too large pass as a coarser prefilter."""
        for extra in (0, self._hs.HS_FLAG_PREFILTER):
            try:
                self._build([expression], [flag | extra])
            except self._hs.HyperscanError:
                continue
            return int(flag | extra)
        text = self._texts[expression].decode("ascii")
        raise RuleError(f"the engine refuses the expression {text!r}", mend="simplify the pattern")


def _probes(expressions: Sequence[bytes], flags: Sequence[int]) -> dict[int, list[bytes]]:
    """Texts that each expression matches, as bytes."""
    out: dict[int, list[bytes]] = {}
    for i, (expression, flag) in enumerate(zip(expressions, flags, strict=True)):
        pattern = Pattern(expression.decode("ascii"), ignore_case=bool(flag))
        out[i] = [t.encode("latin-1") for t in texts(pattern, _PROBES)]
    return out


def _unpacked(data: bytes) -> list[bytes]:
    out: list[bytes] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        out.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return out


def _cpu_flags() -> str:
    """Digest of the CPU's features: a database is compiled for them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return platform.processor()
    line = next((x for x in text.splitlines() if x.startswith(("flags", "Features"))), "")
    return hashlib.sha256(line.encode()).hexdigest()[:16]
