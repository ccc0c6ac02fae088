"""Compiled rules: what the loader gives and every later stage reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from attribution.model import Action, Domain, Line, Match, Role, RuleStatus, Source
from attribution.signatures.relax import Relaxed, relax

#: Characters of a message that are looked at; longer messages are cut, so that hostile lines cost a bounded time.
MAX_MESSAGE = 4_096


class Pattern:
    """A regular expression that is compiled when it is first used: most signatures of a set never meet a line."""

    __slots__ = ("_compiled", "_relaxed", "ignore_case", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, relaxed: Relaxed | None = None) -> None:
        self.source, self.ignore_case = source, ignore_case
        self._compiled: re.Pattern[str] | None = None
        self._relaxed = relaxed

    @property
    def relaxed(self) -> Relaxed:
        """What the prefilter runs (see `attribution.signatures.relax`)."""
        if self._relaxed is None:
            self._relaxed = relax(self.source, ignore_case=self.ignore_case)
        return self._relaxed

    @property
    def flags(self) -> int:
        """Flags of `re`: ``\\d`` and ``\\w`` are ASCII, as in the prefilter engine."""
        return int(re.ASCII | (re.IGNORECASE if self.ignore_case else 0))

    def search(self, text: str) -> re.Match[str] | None:
        """Find the pattern anywhere in `text`."""
        if self._compiled is None:
            self._compiled = re.compile(self.source, self.flags)
        return self._compiled.search(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.source == other.source and self.ignore_case == other.ignore_case

    def __hash__(self) -> int:
        return hash((self.source, self.ignore_case))

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explains:
    """Classes (``comm.*`` allowed) that a signature's match turns into its cascade, within a scope and time."""

    classes: tuple[str, ...]
    scope: str = "attempt"  # attempt node rank
    within_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A whole line as printed, prefixes and all, and what a signature must capture from it.

    `frames` are traceback frames that stand above the line; `source` is the kind of log it is from; `spoken_by` names
    the signature that must be the most specific one on the line.
    """

    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[str, ...] = ()
    source: Source | None = None
    spoken_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """What one captured value means. None leaves the signature's own word."""

    failure_class: str | None = None
    role: Role | None = None
    title: str | None = None
    specificity: int | None = None
    action: str | None = None
    marks: frozenset[str] | None = None
    has_class: bool = False  # the row says a class, maybe "no class"
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A vendor's code table as data: `source` and `date` say whose and of when."""

    name: str
    source: str
    date: str
    rows: Mapping[str, TableRow]
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassInfo:
    """A failure class of the taxonomy."""

    name: str
    domain: Domain
    action: Action
    means: str
    alias: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """First half of the name."""
        return self.name.split(".", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One thing that an emitter prints, and what it means. `index` is its place in `RuleSet.signatures`."""

    index: int
    id: str
    title: str
    failure_class: str | None
    role: Role
    status: RuleStatus
    specificity: int
    subject: str
    sources: frozenset[Source]
    any: tuple[Pattern, ...]
    unless: tuple[Pattern, ...] = ()
    frames: tuple[Pattern, ...] = ()
    table: str | None = None
    table_key: str | None = None
    marks: frozenset[str] = frozenset()
    explains: tuple[Explains, ...] = ()
    overlaps: tuple[str, ...] = ()
    allow: Mapping[str, str] = field(default_factory=dict)  # lint code -> reason
    limits: str = ""
    fix: str = ""
    references: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    counterexamples: tuple[Example, ...] = ()
    shadow: bool = False
    path: str = ""
    line: int = 1

    @property
    def emitter(self) -> str:
        """First word of the id."""
        return self.id.split(".", 1)[0]

    @property
    def dense(self) -> bool:
        """True where lines of it may be sampled in a file that is full of them (see `attribution.match`)."""
        if self.role in (Role.CONTEXT, Role.PROGRESS):
            return self.marks <= {"step", "phase_init", "phase_load", "phase_train", "phase_eval", "phase_save"}
        return self.role is Role.NOISE

    def find(self, text: str, frames: tuple[str, ...] = ()) -> dict[str, str] | None:
        """Captured fields where the signature recognises the message, else None. The first pattern found speaks."""
        for pattern in self.any:
            found = pattern.search(text)
            if found is not None:
                break
        else:
            return None
        if any(p.search(text) is not None for p in self.unless):
            return None
        if self.frames and not any(p.search(f) is not None for p in self.frames for f in frames):
            return None
        return {name: value for name, value in found.groupdict().items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A document over several matches of one attempt (see `attribution.signatures.correlation`).

    `of` and `then` hold signature ids or classes (``comm.*`` allowed); `fields` the values that a match of `of` must
    have captured; `unit` is what is counted or kept apart; matches closer than `apart_s` count as one event.
    """

    id: str
    title: str
    kind: str  # count sequence units without
    of: tuple[str, ...]
    failure_class: str
    then: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = "attempt"  # gpu node rank file attempt
    at_least: int = 1
    within_s: float | None = None
    apart_s: float = 0.0
    role: Role = Role.ROOT
    specificity: int = 70
    limits: str = ""
    fix: str = ""
    references: tuple[str, ...] = ()
    path: str = ""
    line: int = 1


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """Everything that rule folders say, merged. `digest` is the SHA-256 of the content that can change a verdict."""

    signatures: tuple[Signature, ...]
    tables: Mapping[str, Table]
    taxonomy: Mapping[str, ClassInfo]
    digest: str
    correlations: tuple[Correlation, ...] = ()
    folders: tuple[str, ...] = ()
    #: id -> field path (``match.any.0``, ``examples.1``) -> line; empty where the set came from the cache
    lines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> Mapping[str, Signature]:
        """Signatures by id."""
        return {s.id: s for s in self.signatures}

    @cached_property
    def wants_frames(self) -> frozenset[int]:
        """Indexes of the signatures that look at the traceback above the line."""
        return frozenset(s.index for s in self.signatures if s.frames)

    def line_of(self, signature: Signature, where: str) -> int:
        """Line of a field of a signature; the signature's own line where it is not known."""
        return self.lines.get(signature.id, {}).get(where, signature.line)

    def row_of(self, signature: Signature, fields: Mapping[str, str]) -> TableRow | None:
        """Row of the signature's table for the captured key; None where there is no table, key or row."""
        if signature.table is None or signature.table_key is None:
            return None
        key = fields.get(signature.table_key)
        return None if key is None else self.tables[signature.table].rows.get(key)

    def match(self, signature: Signature, line: Line, fields: dict[str, str], frames: tuple[str, ...] = ()) -> Match:
        """The match of a signature that recognised `line`; its table's row may say class, role and specificity."""
        row = self.row_of(signature, fields)
        failure_class, role, specificity, marks = (
            signature.failure_class,
            signature.role,
            signature.specificity,
            signature.marks,
        )
        if row is not None:
            failure_class = row.failure_class if row.has_class else failure_class
            role = row.role if row.role is not None else role
            specificity = row.specificity if row.specificity is not None else specificity
            marks = row.marks | marks if row.marks is not None else marks
        return Match(
            signature=signature.id,
            role=role,
            failure_class=failure_class,
            place=line.place,
            text=line.text,
            fields=fields,
            marks=marks,
            specificity=specificity,
            frames=frames if signature.frames else (),
            shadow=signature.shadow,
        )
