"""What is wrong with a policy document, all of it at once: rows that can never decide, names that nothing has, no proof.

Whether a row can decide is settled exactly for conditions that are independent of each other: every condition splits its
dimension (class, status, a count ...) into a few kinds of values, and each kind is a set of rows that it lets through. The
kinds of all dimensions combined give every set of rows that can hold together; a row that is the first of none is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attribution.causality import class_matches
from attribution.model import Action, Domain, Outcome, PolicyError
from attribution.policy.advise import BY_A_PERSON, NEVER_EXCLUDED
from attribution.policy.cases import CaseResult, read_case, run_case
from attribution.policy.document import LADDER, Policy, Row, When
from attribution.signatures import ClassInfo

#: Code -> (slug, what to do about it). Codes below P020 are errors, the others warnings.
CODES: dict[str, tuple[str, str]] = {
    "P001": ("unknown-class", "take a class, family.* or * from rules/taxonomy.yaml"),
    "P002": ("unreachable-row", "rows before it take everything: move it up, or remove it"),
    "P003": ("never-holds", "its conditions contradict each other"),
    "P004": ("unknown-signal", "no diagnosis carries this signal"),
    "P005": ("no-tests", "add inline `tests:`; see docs/how-to/write-a-policy.md"),
    "P006": ("bad-test", "correct the test"),
    "P007": ("test-fails", "correct the rows or the expectation"),
    "P020": ("untested-row", "add a test whose `row:` is this one"),
    "P021": ("weakened-by-law", "the laws of the engine never let this action through: say what really happens"),
    "P022": ("ceiling-first", "the limit of the same name is reached before the row is: lower the row's number"),
}
#: Facts beside the class that `diagnose` and the detectors state.
SIGNALS = frozenset(
    [
        "diverged",
        "ended_by_job_cancelled",
        "ended_by_node_fail",
        "ended_by_preempted",
        "ended_by_time_limit",
        "hung",
        "hung_until_ended",
        "no_progress_format",
        "sigterm_received",
        "slowed_down",
    ]
)
_COUNTS = {
    "same_root_without_progress_at_least": "max_same_root_without_progress",
    "same_entity_without_progress_at_least": "max_same_entity_without_progress",
    "failures_without_progress_at_least": "max_failures_without_progress",
    "restarts_at_least": "max_restarts",
}
_CONTINUES = (Action.RESTART, Action.RESTART_EXCLUDING, Action.TERMINATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFinding:
    """One thing wrong with a policy. `where` is a row's or a test's name."""

    code: str
    where: str
    what: str

    @property
    def is_error(self) -> bool:
        """Errors make a policy unfit; the rest is worth a look."""
        return self.code < "P020"

    @property
    def slug(self) -> str:
        """Readable name of the code."""
        return CODES[self.code][0]

    @property
    def mend(self) -> str:
        """What to do about it."""
        return CODES[self.code][1]


def check_policy(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> tuple[PolicyFinding, ...]:
    """Everything that is wrong, errors first, then in the order of the document."""
    found = [*_names(policy, taxonomy), *_dead(policy, taxonomy), *_laws(policy, taxonomy), *_ceilings(policy)]
    found += _proofs(policy, taxonomy)
    order = {r.id: i for i, r in enumerate(policy.rows)}
    return tuple(sorted(found, key=lambda f: (not f.is_error, order.get(f.where, len(order)), f.code, f.what)))


def _covered(pattern: str, taxonomy: Mapping[str, ClassInfo]) -> list[str]:
    return [c for c in taxonomy if class_matches(pattern, c)]


def _names(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> Iterable[PolicyFinding]:
    for row in policy.rows:
        for pattern in row.when.classes:
            if not _covered(pattern, taxonomy):
                yield PolicyFinding(code="P001", where=row.id, what=f"{pattern!r} covers no class")
        for signal in row.when.signals:
            if signal not in SIGNALS:
                yield PolicyFinding(
                    code="P004", where=row.id, what=f"{signal!r} is none of {', '.join(sorted(SIGNALS))}"
                )


def _kinds(rows: tuple[Row, ...], values: Iterable[Any], lets: Callable[[When, Any], bool]) -> set[int]:
    """Sets of rows (as bits) that the values of one dimension let through."""
    return {sum(1 << i for i, row in enumerate(rows) if lets(row.when, v)) for v in values}


def _thresholds(rows: tuple[Row, ...], name: str) -> list[float]:
    return [-1.0, *sorted({float(v) for r in rows if (v := getattr(r.when, name)) is not None})]


def possible_sets(rows: tuple[Row, ...], taxonomy: Mapping[str, ClassInfo]) -> set[int]:
    """Every set of rows, as bits, that can hold at once."""
    dimensions = [
        _kinds(rows, ("", *taxonomy), lambda w, v: not w.classes or any(class_matches(p, v) for p in w.classes)),
        _kinds(rows, Domain, lambda w, v: not w.domain or v in w.domain),
        _kinds(rows, Outcome, lambda w, v: not w.outcome or v in w.outcome),
        _kinds(rows, range(len(LADDER)), _status),
        _kinds(rows, (None, True, False), lambda w, v: w.progressed is None or w.progressed is v),
    ]
    for name in ("confidence_at_least", *_COUNTS):

        def lets(w: When, v: float, name: str = name) -> bool:
            bound = getattr(w, name)
            return bound is None or bound <= v

        dimensions.append(_kinds(rows, _thresholds(rows, name), lets))
    for signal in sorted({s for r in rows for s in r.when.signals}):
        # Signals come and go independently: with it, and without it.
        without = sum(1 << i for i, r in enumerate(rows) if not r.when.signals or set(r.when.signals) - {signal})
        dimensions.append({without, (1 << len(rows)) - 1})
    sets = {(1 << len(rows)) - 1}
    for kinds in dimensions:
        sets = {a & b for a in sets for b in kinds}
    return sets


def _status(when: When, level: int) -> bool:
    low = LADDER.index(when.status_at_least) if when.status_at_least is not None else 0
    high = LADDER.index(when.status_at_most) if when.status_at_most is not None else len(LADDER) - 1
    return low <= level <= high


def _dead(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> Iterable[PolicyFinding]:
    sets = possible_sets(policy.rows, taxonomy)
    for i, row in enumerate(policy.rows):
        holding = [s for s in sets if s >> i & 1]
        if not holding:
            if all(_covered(p, taxonomy) for p in row.when.classes):
                yield PolicyFinding(code="P003", where=row.id, what="no attempt meets all its conditions")
        elif all(s & ((1 << i) - 1) for s in holding):
            common = [r.id for j, r in enumerate(policy.rows[:i]) if all(s >> j & 1 for s in holding)]
            before = f"row {common[0]} holds wherever this one does" if common else "the rows before it take all of it"
            yield PolicyFinding(code="P002", where=row.id, what=before)


def _laws(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> Iterable[PolicyFinding]:
    for row in policy.rows:
        covered = [c for p in row.when.classes for c in _covered(p, taxonomy)]
        if row.action in _CONTINUES and covered and all(c in BY_A_PERSON for c in covered):
            yield PolicyFinding(code="P021", where=row.id, what="what a person ended is not restarted")
        if (
            row.action is Action.RESTART_EXCLUDING
            and covered
            and all(c.startswith(NEVER_EXCLUDED) or taxonomy[c].domain is Domain.WORKLOAD for c in covered)
        ):
            yield PolicyFinding(code="P021", where=row.id, what="no other node mends faults of these classes")
        if (
            row.action in _CONTINUES
            and row.when.outcome
            and set(row.when.outcome) <= {Outcome.COMPLETED, Outcome.RUNNING}
        ):
            yield PolicyFinding(code="P021", where=row.id, what="an attempt that is well is left alone")


def _ceilings(policy: Policy) -> Iterable[PolicyFinding]:
    for row in policy.rows:
        for condition, limit in _COUNTS.items():
            bound, ceiling = getattr(row.when, condition), getattr(policy.limits, limit)
            if bound is not None and row.action in _CONTINUES and bound >= ceiling:
                yield PolicyFinding(code="P022", where=row.id, what=f"{condition} {bound}, but {limit} is {ceiling}")


def _proofs(policy: Policy, taxonomy: Mapping[str, ClassInfo]) -> Iterable[PolicyFinding]:
    if not policy.tests:
        yield PolicyFinding(code="P005", where="tests", what="the document proves nothing of what it says")
        return
    done: list[CaseResult] = []
    for i, raw in enumerate(policy.tests):
        try:
            done.append(run_case(read_case(raw, i, policy.path, taxonomy), policy, taxonomy))
        except PolicyError as error:
            yield PolicyFinding(code="P006", where=f"tests[{i}]", what=error.what)
    for result in done:
        for problem in result.problems:
            yield PolicyFinding(code="P007", where=result.case.name, what=problem)
    used = {r.advice.reason_code for r in done}
    for row in policy.rows:
        if row.id not in used:
            yield PolicyFinding(code="P020", where=row.id, what="no test is decided by it")
