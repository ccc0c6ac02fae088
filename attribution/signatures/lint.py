"""Lint of sound rules: what compiles and is still wrong, slow or unproven.

Each validator is a small class with a `code` and a `check` over the whole set. Schema, classes, marks and tables are
checked while loading (`attribution.signatures.merge`).
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from attribution.model import Match, Role, Source
from attribution.signatures.engine import Engine, speakers
from attribution.signatures.findings import Finding
from attribution.signatures.generate import hostile, texts
from attribution.signatures.proof import parsed, prove, recognised, source_of
from attribution.signatures.relax import relax
from attribution.signatures.rules import MAX_MESSAGE, Example, Pattern, RuleSet, Signature

_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")

#: Shortest literal with which a prefilter pays.
MIN_LITERAL = 4
#: Generated texts per pattern that the engine must see.
SELF_TEST_TEXTS = 3
#: Long repeats in a row from which a pattern is timed, and the CPU time that it may take on one hostile message.
SLOW_REPEATS = 3
SLOW_S = 0.2
#: Unreachable rows of one table that are listed.
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What validators look at: the rules, an engine, healthy logs, and the examples' lines matched once for all."""

    rules: RuleSet
    engine: Engine
    healthy: tuple[Path, ...] = ()
    heard: dict[tuple[str, int], list[list[Match]]] = field(default_factory=dict)

    def matches(self, signature: Signature, index: int) -> list[list[Match]]:
        """Matches of all signatures per line of one positive example."""
        key = (signature.id, index)
        if key not in self.heard:
            example = signature.examples[index]
            lines = parsed(example.text, source_of(signature, example))
            self.heard[key] = [self.engine.verify(x, self.engine.candidates(x.text), example.frames) for x in lines]
        return self.heard[key]

    def finding(self, signature: Signature, code: str, what: str, at: str) -> Finding:
        """A finding at a field of a signature."""
        line = self.rules.line_of(signature, at)
        return Finding(code=code, what=what, path=signature.path, line=line, signature=signature.id)


class Validator(Protocol):
    """One kind of thing that can be wrong."""

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Everything of this kind that is wrong."""
        ...


class Proofs:
    """Positives are recognised with their fields, counterexamples are not."""

    codes: ClassVar[tuple[str, ...]] = ("R010", "R011", "R012")

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Run every signature's own examples."""
        for signature in bench.rules.signatures:
            yield from prove(bench.rules, signature)


class Speaker:
    """`spoken_by` of an example is the most specific signature on its line."""

    codes: ClassVar[tuple[str, ...]] = ("R025",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Compare with what is heard first."""
        for signature in bench.rules.signatures:
            for i, example in enumerate(signature.examples):
                if example.spoken_by is None:
                    continue
                first = next((m for ms in bench.matches(signature, i) for m in speakers(ms)), None)
                if first is None or first.signature != example.spoken_by:
                    what = f"{first.signature if first else 'nobody'} speaks, not {example.spoken_by}"
                    yield bench.finding(signature, "R025", what, f"examples.{i}")


class Exercised:
    """Every pattern of `match.any` is found in an example."""

    codes: ClassVar[tuple[str, ...]] = ("R013",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Search every pattern in every example's lines; of a single pattern the proofs tell."""
        for signature in bench.rules.signatures:
            if len(signature.any) == 1:
                continue
            lines = [x.text for e in signature.examples for x in parsed(e.text, source_of(signature, e))]
            for j, pattern in enumerate(signature.any):
                if not any(pattern.search(text) for text in lines):
                    yield bench.finding(signature, "R013", pattern.source[:120], f"match.any.{j}")


class Prefilter:
    """Every pattern has a literal of four bytes, and none that costs more than linear time."""

    codes: ClassVar[tuple[str, ...]] = ("R014", "R015")

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Look at the relaxed form."""
        for signature in bench.rules.signatures:
            for j, pattern in enumerate(signature.any):
                if pattern.relaxed.shortest < MIN_LITERAL:
                    found = ", ".join(repr(x.decode("latin-1")) for x in pattern.relaxed.literals) or "none"
                    what = f"literals: {found} of {pattern.source[:100]}"
                    yield bench.finding(signature, "R014", what, f"match.any.{j}")
            for name, group in (("any", signature.any), ("unless", signature.unless), ("frames", signature.frames)):
                for j, pattern in enumerate(group):
                    hazards = relax(pattern.source, ignore_case=pattern.ignore_case).hazards
                    if hazards:
                        what = f"{', '.join(hazards)}: {pattern.source[:100]}"
                        yield bench.finding(signature, "R015", what, f"match.{name}.{j}")


class Slow:
    """No pattern takes long on a hostile message: several long repeats in a row can."""

    codes: ClassVar[tuple[str, ...]] = ("R026",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Time the patterns that could be slow, in CPU time of this process."""
        for signature in bench.rules.signatures:
            for name, group in (("any", signature.any), ("unless", signature.unless), ("frames", signature.frames)):
                for j, pattern in enumerate(group):
                    long = pattern.relaxed.repeats >= SLOW_REPEATS and not pattern.relaxed.hazards
                    if long and self._slow(pattern):
                        yield bench.finding(signature, "R026", pattern.source[:120], f"match.{name}.{j}")

    @staticmethod
    def _slow(pattern: Pattern) -> bool:
        """Grow the message and stop where the time, growing with its square from here, would pass the limit."""
        pattern.search("")  # compiled before the clock starts
        size = 32
        while size <= MAX_MESSAGE:
            for text in hostile(pattern, size):
                start = time.process_time()
                pattern.search(text)
                took = time.process_time() - start
                if took > max(0.01, SLOW_S * (size / MAX_MESSAGE) ** 2):
                    return True
            size *= 2
        return False


class Overlap:
    """A positive of one rule is matched as specifically by a rule of another class."""

    codes: ClassVar[tuple[str, ...]] = ("R016",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Match every positive with all rules; each pair is told once."""
        told: set[tuple[str, str]] = set()
        for signature in bench.rules.signatures:
            for i in range(len(signature.examples)):
                for matches in bench.matches(signature, i):
                    own = next((m for m in matches if m.signature == signature.id), None)
                    if own is None or own.failure_class is None:
                        continue
                    for other in matches:
                        pair = (min(own.signature, other.signature), max(own.signature, other.signature))
                        if pair not in told and self._clash(bench.rules, own, other):
                            told.add(pair)
                            what = f"{other.signature} ({other.failure_class}) is as specific on this line"
                            yield bench.finding(signature, "R016", what, f"examples.{i}")

    @staticmethod
    def _clash(rules: RuleSet, own: Match, other: Match) -> bool:
        if own.specificity != other.specificity or other.failure_class in (None, own.failure_class):
            return False
        a, b = rules.by_id[own.signature], rules.by_id[other.signature]
        return a.id not in b.overlaps and b.id not in a.overlaps


class ExplainsLoop:
    """Two classes, each explained by a root of the other."""

    codes: ClassVar[tuple[str, ...]] = ("R017",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Follow `explains` of roots, class to class."""
        edges: dict[str, dict[str, tuple[Signature, str]]] = {}
        for signature in bench.rules.signatures:
            if signature.role is not Role.ROOT or signature.failure_class is None:
                continue
            for i, explains in enumerate(signature.explains):
                for name in _expanded(explains.classes, bench.rules):
                    if name != signature.failure_class:
                        own = edges.setdefault(signature.failure_class, {})
                        own.setdefault(name, (signature, f"explains.{i}"))
        for cause in sorted(edges):
            for effect, (signature, at) in sorted(edges[cause].items()):
                back = edges.get(effect, {}).get(cause)
                if back is not None and cause < effect:
                    what = f"{cause} explains {effect}, and {back[0].id} says the reverse"
                    yield bench.finding(signature, "R017", what, at)


def _expanded(classes: Iterable[str], rules: RuleSet) -> list[str]:
    out: list[str] = []
    for name in classes:
        out += [c for c in rules.taxonomy if c.startswith(name[:-1])] if name.endswith(".*") else [name]
    return list(dict.fromkeys(out))


class Counterexamples:
    """Every rule shows a line that looks alike and is not meant."""

    codes: ClassVar[tuple[str, ...]] = ("R019",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Count them."""
        for signature in bench.rules.signatures:
            if not signature.counterexamples:
                yield bench.finding(signature, "R019", "no counterexample", "")


class TableRows:
    """Every row of a table can be reached: by its `example` line where it has one, else by the capturing group."""

    codes: ClassVar[tuple[str, ...]] = ("R020",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Try every row with the signatures that use the table."""
        users: dict[str, list[Signature]] = {}
        for signature in bench.rules.signatures:
            if signature.table is not None:
                users.setdefault(signature.table, []).append(signature)
        for name, table in sorted(bench.rules.tables.items()):
            missed = [k for k in table.rows if not self._reached(bench.rules, users.get(name, ()), name, k)]
            for key in missed[:_SHOWN]:
                what = f"table {name}: row {key!r}"
                yield Finding(code="R020", what=what, path=table.origin, line=_line_in(table.origin, key))

    @staticmethod
    def _reached(rules: RuleSet, users: Sequence[Signature], table: str, key: str) -> bool:
        shown = rules.tables[table].rows[key].facts.get("example")
        for signature in users:
            if shown is not None:
                matches = recognised(rules, signature, Example(text=shown))
                if any(m.fields.get(signature.table_key or "") == key for m in matches):
                    return True
            elif any(_group_takes(p, signature.table_key or "", key) for p in signature.any):
                return True
        return False


def _line_in(path: str, key: str) -> int:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return 1
    wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*:")
    return next((i for i, x in enumerate(lines, start=1) if wanted.match(x)), 1)


def _group_takes(pattern: Pattern, group: str, value: str) -> bool:
    """True where the named group of the pattern alone could capture `value`."""
    tree = _parser.parse(pattern.source, pattern.flags)
    number = tree.state.groupdict.get(group)
    body = None if number is None else _subtree(tree, number)
    if body is None:
        return False
    compiled: re.Pattern[str] = _compiler.compile(body, pattern.flags)
    return compiled.fullmatch(value) is not None


def _subtree(items: Any, number: int) -> Any:
    """The tree of one group, None where the pattern has no such group."""
    for op, arg in items:
        name = str(op)
        if name == "SUBPATTERN":
            if arg[0] == number:
                return arg[3]
            found = _subtree(arg[3], number)
        elif name == "BRANCH":
            found = next((x for x in (_subtree(b, number) for b in arg[1]) if x is not None), None)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            found = _subtree(arg[2], number)
        else:
            found = None
        if found is not None:
            return found
    return None


class EngineSees:
    """The prefilter engine sees every example and texts generated from every pattern (engines have had bugs)."""

    codes: ClassVar[tuple[str, ...]] = ("R022",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Ask the engine for candidates."""
        for signature in bench.rules.signatures:
            for j, pattern in enumerate(signature.any):
                for text in texts(pattern, SELF_TEST_TEXTS):
                    if signature.index not in bench.engine.candidates(text):
                        yield bench.finding(signature, "R022", repr(text[:160]), f"match.any.{j}")
            for i, example in enumerate(signature.examples):
                for line in parsed(example.text, source_of(signature, example)):
                    sees = signature.index in bench.engine.candidates(line.text)
                    if not sees and signature.find(line.text, example.frames) is not None:
                        yield bench.finding(signature, "R022", repr(line.text[:160]), f"examples.{i}")


class Healthy:
    """No rule accuses in a log of a healthy run. One finding per rule, at its first line there."""

    codes: ClassVar[tuple[str, ...]] = ("R018",)

    def check(self, bench: Bench) -> Iterator[Finding]:
        """Scan the healthy logs whole."""
        told: set[str] = set()
        for path in bench.healthy:
            data = path.read_bytes()
            line_no, at = 1, 0
            for hit in bench.engine.scan_block(data):
                line_no += data.count(b"\n", at, hit.start)
                at = hit.start
                end = data.find(b"\n", at)
                raw = data[at : len(data) if end < 0 else end]
                for match in self._accusing(bench, raw, hit.signatures):
                    if match.signature not in told:
                        told.add(match.signature)
                        signature = bench.rules.by_id[match.signature]
                        what = f"{path}:{line_no}: {match.text[:140]!r}"
                        yield bench.finding(signature, "R018", what, "")

    @staticmethod
    def _accusing(bench: Bench, raw: bytes, candidates: Sequence[int]) -> Iterator[Match]:
        for line in parsed(raw.decode("utf-8", "replace"), Source.JOB_LOG):
            for match in speakers(bench.engine.verify(line, candidates)):
                if match.role is Role.ROOT:
                    yield match


#: In the order in which they run; reports are sorted by file and line.
VALIDATORS: tuple[Validator, ...] = (
    Proofs(),
    Speaker(),
    Exercised(),
    Prefilter(),
    Slow(),
    Overlap(),
    ExplainsLoop(),
    Counterexamples(),
    TableRows(),
    EngineSees(),
    Healthy(),
)


def lint(rules: RuleSet, engine: Engine, healthy: Sequence[Path] = ()) -> list[Finding]:
    """Everything that is wrong with sound rules, sorted by file and line.

    Args:
        rules: from `examine`, so that lines of fields are known.
        engine: a matcher of the same rules.
        healthy: logs of healthy runs.
    """
    bench = Bench(rules=rules, engine=engine, healthy=tuple(healthy))
    found = [f for validator in VALIDATORS for f in validator.check(bench)]
    return sorted((f for f in found if not _allowed(rules, f)), key=lambda f: f.order)


def _allowed(rules: RuleSet, finding: Finding) -> bool:
    """True where the rule says why it breaks this code. Proofs (R010 to R012) cannot be talked away."""
    rule = rules.by_id.get(finding.signature or "")
    return rule is not None and finding.code in rule.allow and finding.code not in Proofs.codes
