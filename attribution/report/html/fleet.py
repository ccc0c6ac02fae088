"""What a store says of many attempts, counted: the numbers of the report, each with what is not known about it."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attribution.report.html.intervals import mean_time, wilson

if TYPE_CHECKING:
    from attribution.store import Store

#: Outcomes that count as a failure. Cancelled, running and unknown attempts are neither failure nor success.
FAILURES = ("failed", "hung", "slow")
#: Job sizes in GPUs, lower ends of the buckets.
SIZES = (1, 2, 9, 65, 513, 4097)
MOST_ROWS = 20
_DAY_S = 86_400.0
_WORDS = r"[A-Za-z]{3,}\S* +\S*[A-Za-z]{2,}\S* +\S*[A-Za-z]{2,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt, as far as the report counts it. `gpus_by` says where the number of GPUs comes from."""

    id: str
    outcome: str
    failure_class: str | None
    domain: str
    status: str
    confidence: float
    nodes: tuple[str, ...] = ()
    blamed: tuple[str, ...] = ()
    gpus: int | None = None
    gpus_by: str = "unknown"
    start_s: float | None = None
    end_s: float | None = None
    action: str | None = None
    fingerprint: str | None = None
    root_text: str | None = None
    where: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it counts as a failure."""
        return self.outcome in FAILURES

    @property
    def family(self) -> str:
        """Family of the class; ``unclassified`` without one."""
        return (self.failure_class or "unclassified").split(".", 1)[0]

    @property
    def hours(self) -> float | None:
        """Hours from start to end, None where either is unknown."""
        if self.start_s is None or self.end_s is None or self.end_s < self.start_s:
            return None
        return (self.end_s - self.start_s) / 3600

    @property
    def gpu_hours(self) -> float | None:
        """GPU-hours, None where GPUs or times are unknown."""
        return None if self.gpus is None or self.hours is None else self.gpus * self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Failures of one span of time, by family."""

    label: str
    counts: dict[str, int]
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """GPU-hours of failed attempts of one class. `unknown` counts attempts of which they are not known."""

    name: str
    domain: str
    attempts: int
    gpu_hours: float
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Attempts of one bucket of job sizes: mean time to failure with its exact Poisson interval, rate with Wilson's."""

    label: str
    attempts: int
    failures: int
    hours: float
    mttf: float | None
    low: float
    high: float | None
    rate: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node: how often it was named as the culprit of the attempts that it took part in."""

    node: str
    attempts: int
    blamed: int
    low: float
    high: float
    classes: tuple[tuple[str, int], ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A root that came back: attempts with one fingerprint."""

    fingerprint: str
    failure_class: str | None
    attempts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A template that nothing gave a class, in attempts that failed."""

    template_id: int
    text: str
    attempts: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything that the overview shows."""

    rows: tuple[Row, ...]
    periods: tuple[Period, ...] = ()
    undated: int = 0
    by_class: tuple[Loss, ...] = ()
    by_domain: tuple[Loss, ...] = ()
    gpus_from_ranks: int = 0
    sizes: tuple[Size, ...] = ()
    unsized: int = 0
    nodes: tuple[NodeRow, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    actions: tuple[tuple[str, int], ...] = ()
    outcomes: tuple[tuple[str, int], ...] = ()
    rules: tuple[str, ...] = field(default=())

    @property
    def failures(self) -> tuple[Row, ...]:
        """Attempts that failed."""
        return tuple(r for r in self.rows if r.failed)


def read(store: Store) -> Fleet:
    """Count the newest analysis of every attempt.

    Raises:
        StoreError: the store cannot be read.
    """
    frame = store.sql(
        "select a.attempt_id, d.outcome, d.class, d.domain, d.status, d.confidence, a.nodes, d.culprit_nodes, a.gpus,"
        " a.n_ranks, a.start_time_s, a.end_time_s, v.action, d.fingerprint, d.root_text, d.root_path, d.root_line"
        " from attempts a join diagnoses d using (attempt_id) left join advice v using (attempt_id) order by 1"
    )
    return count(map(_row, frame.iter_rows()), unexplained=_unexplained(store), rules=_rules(store))


def _row(r: Sequence[object]) -> Row:
    gpus, ranks = r[8], r[9]
    return Row(
        id=str(r[0]),
        outcome=str(r[1]),
        failure_class=_text(r[2]),
        domain=str(r[3]),
        status=str(r[4]),
        confidence=_number(r[5]) or 0.0,
        nodes=_texts(r[6]),
        blamed=_texts(r[7]),
        gpus=gpus if isinstance(gpus, int) else ranks if isinstance(ranks, int) else None,
        gpus_by="accounting" if isinstance(gpus, int) else "ranks" if isinstance(ranks, int) else "unknown",
        start_s=_number(r[10]),
        end_s=_number(r[11]),
        action=_text(r[12]),
        fingerprint=_text(r[13]),
        root_text=_text(r[14]),
        where=f"{r[15]}:{r[16]}" if r[15] is not None else None,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _unexplained(store: Store) -> tuple[Unexplained, ...]:
    # A template counts by how little it is seen in attempts that went well: what a healthy run prints too is no sign.
    frame = store.sql(
        "select t.template_id, any_value(t.exemplar), count(distinct c.attempt_id) filter (d.outcome in"
        " ('failed', 'hung', 'slow')) as bad, sum(c.count) from templates t join template_counts c using (template_id)"
        " join diagnoses d on d.attempt_id = c.attempt_id where t.class is null and t.signature is null"
        # Carets, rules and code frames of tracebacks have fewer than three words.
        f" and regexp_matches(t.exemplar, '{_WORDS}') and not starts_with(ltrim(t.exemplar), 'File \"')"
        " group by 1 having bad > 0 and count(distinct c.attempt_id) filter (d.outcome = 'completed') = 0"
        f" order by bad desc, 4 desc, 1 limit {MOST_ROWS}"
    )
    return tuple(Unexplained(template_id=r[0], text=r[1], attempts=r[2], lines=r[3]) for r in frame.iter_rows())


def _rules(store: Store) -> tuple[str, ...]:
    return tuple(sorted({f"engine {m.engine}, rules {m.rules}" for m in store.manifests() if m.engine}))


def count(rows: Iterable[Row], *, unexplained: tuple[Unexplained, ...] = (), rules: tuple[str, ...] = ()) -> Fleet:
    """The numbers of the overview. Pure: equal rows give equal numbers."""
    rows = tuple(rows)
    failed = [r for r in rows if r.failed]
    periods = _periods(failed)
    sizes = _sizes(rows)
    return Fleet(
        rows=rows,
        periods=periods,
        undated=sum(r.end_s is None for r in failed),
        by_class=_losses(failed, lambda r: r.failure_class or "unclassified"),
        by_domain=_losses(failed, lambda r: r.domain),
        gpus_from_ranks=sum(r.gpus_by == "ranks" for r in failed),
        sizes=sizes,
        unsized=len(rows) - sum(s.attempts for s in sizes),
        nodes=_nodes(rows),
        repeats=_repeats(failed),
        unexplained=unexplained,
        actions=_most(r.action or "no advice" for r in rows),
        outcomes=_most(r.outcome for r in rows),
        rules=rules,
    )


def _most(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items(), key=lambda x: (-x[1], x[0])))


def _periods(failed: Sequence[Row]) -> tuple[Period, ...]:
    """Days, weeks or months: the finest that gives at most 31 bars. Quiet periods between stay, with no failures."""
    ends = sorted(r.end_s for r in failed if r.end_s is not None)
    if not ends:
        return ()
    unit = next((u for u in ("day", "week") if (ends[-1] - ends[0]) / _DAY_S / {"day": 1, "week": 7}[u] <= 30), "month")
    counts: dict[str, Counter[str]] = {}
    at = ends[0]
    while unit != "month" and at <= ends[-1] + _DAY_S:
        if (label := _label(at, unit)) <= _label(ends[-1], unit):
            counts.setdefault(label, Counter())
        at += _DAY_S
    for r in failed:
        if r.end_s is not None:
            counts.setdefault(_label(r.end_s, unit), Counter())[r.family] += 1
    return tuple(
        Period(label=k, counts=dict(sorted(c.items())), attempts=sum(c.values())) for k, c in sorted(counts.items())
    )


def _label(seconds: float, unit: str) -> str:
    day = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()
    if unit == "week":
        day -= datetime.timedelta(days=day.weekday())
    return day.isoformat() if unit != "month" else day.strftime("%Y-%m")


def _losses(failed: Sequence[Row], name: Callable[[Row], str]) -> tuple[Loss, ...]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for r in failed:
        groups[name(r)].append(r)
    losses = (
        Loss(
            name=key,
            domain=_most(r.domain for r in many)[0][0],
            attempts=len(many),
            gpu_hours=sum(r.gpu_hours for r in many if r.gpu_hours is not None),
            unknown=sum(r.gpu_hours is None for r in many),
        )
        for key, many in groups.items()
    )
    return tuple(sorted(losses, key=lambda x: (-x.gpu_hours, -x.attempts, x.name)))


def _sizes(rows: Sequence[Row]) -> tuple[Size, ...]:
    groups: dict[int, list[Row]] = defaultdict(list)
    for r in rows:
        # A cancelled or cut-off attempt ran without failing for its hours: it counts as exposure, not as success.
        if r.gpus is not None and r.gpus > 0 and r.hours is not None and r.outcome != "unknown":
            groups[max(s for s in SIZES if s <= r.gpus)].append(r)
    out = []
    for low in sorted(groups):
        many = groups[low]
        failures = sum(r.failed for r in many)
        hours = sum(r.hours or 0.0 for r in many)
        mean, least, most = mean_time(hours, failures)
        after = [s for s in SIZES if s > low]
        label = "1" if low == 1 else f"{low} to {after[0] - 1}" if after else f"{low} and more"
        out.append(
            Size(
                label=label, attempts=len(many), failures=failures, hours=hours, mttf=mean, low=least, high=most,
                rate=wilson(failures, len(many)),
            )
        )  # fmt: skip
    return tuple(out)


def _nodes(rows: Sequence[Row]) -> tuple[NodeRow, ...]:
    """Nodes that were blamed, by the lower end of the interval: once of one says less than nine times of ten."""
    there: Counter[str] = Counter()
    blamed: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        there.update({*r.nodes, *r.blamed})
        # The node on which a program's own mistake showed is no worse for it.
        if r.failed and r.domain in ("infrastructure", "unknown"):
            for node in sorted(set(r.blamed)):
                blamed[node].append(r)
    out = []
    for node, many in blamed.items():
        low, high = wilson(len(many), there[node])
        out.append(
            NodeRow(
                node=node, attempts=there[node], blamed=len(many), low=low, high=high,
                classes=_most(r.failure_class or "unclassified" for r in many), evidence=tuple(r.id for r in many[:5]),
            )
        )  # fmt: skip
    return tuple(sorted(out, key=lambda x: (-x.low, -x.blamed, x.node))[:MOST_ROWS])


def _repeats(failed: Sequence[Row]) -> tuple[Repeat, ...]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for r in failed:
        if r.fingerprint:
            groups[r.fingerprint].append(r)
    out = [
        Repeat(
            fingerprint=key,
            failure_class=many[0].failure_class,
            attempts=tuple(r.id for r in many),
            text=many[0].root_text or "",
        )
        for key, many in groups.items()
        if len(many) > 1
    ]
    return tuple(sorted(out, key=lambda x: (-len(x.attempts), x.fingerprint))[:MOST_ROWS])
