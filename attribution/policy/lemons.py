"""Lemon nodes: which nodes fail more often than chance lets them, over all jobs, with older events counting less.

An *event* is an attempt whose diagnosis blames a node at status supported or better for a fault of the infrastructure (the
node is counted once per attempt). *Exposure* is the hours that nodes ran in attempts. Both decay with the age of the
attempt's end, by the same factor, so that their ratio stays a rate: ``0.5 ** (age / half_life)``.

A node's count is compared with what the rest of the fleet's rate would give over the node's own hours: the probability
of at least so many events in a Poisson process. Nodes differ even where none is a lemon (age, place), so the fleet's rate
is not taken as exact: with `spread` above 0 the rate varies from node to node as a gamma variable whose coefficient of
variation is `spread`, and the count is negative binomial (Gamma-Poisson). One test per node makes many tests: p-values are
adjusted by Benjamini and Hochberg, and a node is a lemon where the adjusted value is at most `false_discovery`, it has at
least `least_events` events on at least `least_jobs` different jobs (one job's program can break one node many times), and
its rate is at least `least_ratio` times the rest's. Decayed counts are not whole: the tail is read through the continuous
extension of the distribution, which for whole counts is exact. Intervals are of the undecayed count (Garwood, exact), so
that they tell how much was really seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from attribution.model import Domain, Status
from attribution.policy.conditions import at_least
from attribution.policy.past import Record
from attribution.policy.statistics import benjamini_hochberg, gamma_above, poisson_at_least, poisson_interval

_STEPS = 64
#: A smaller spread of rates cannot be told from none.
_LEAST_SPREAD = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LemonRules:
    """When a node is a lemon. `half_life_days` of events and exposure alike; `spread` see above."""

    half_life_days: float = 30.0
    false_discovery: float = 0.05
    least_events: int = 2
    least_jobs: int = 2
    least_ratio: float = 2.0
    spread: float = 0.5
    status: Status = Status.SUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLedger:
    """What is counted of one node. Rates are events per 1000 node-hours; `rate_low` and `rate_high` bound the undecayed
    rate at 95 %. `weight` and `weighted_hours` are the decayed counts that the test compares."""

    node: str
    events: int
    hours: float
    jobs: int
    weight: float
    weighted_hours: float
    rate: float
    rate_low: float
    rate_high: float
    fleet_rate: float
    p: float
    q: float
    lemon: bool
    classes: tuple[str, ...] = ()
    last_s: float | None = None


@dataclass(slots=True)
class _Count:
    events: int = 0
    hours: float = 0.0
    weight: float = 0.0
    weighted_hours: float = 0.0
    last_s: float | None = None
    jobs: set[tuple[str, str]] = field(default_factory=set)
    classes: dict[str, int] = field(default_factory=dict)


def blamed(r: Record, bound: Status = Status.SUPPORTED) -> tuple[str, ...]:
    """Nodes of the attempt's own allocation that its diagnosis blames surely enough for a fault of the infrastructure."""
    d = r.diagnosis
    if not r.failed or d.domain is not Domain.INFRASTRUCTURE or not at_least(d.status, bound):
        return ()
    allocation = set(r.attempt.nodes)
    named = tuple(n for n in dict.fromkeys(d.culprit.nodes) if n in allocation)
    return named if len(named) < max(2, len(allocation)) else ()


def _counts(found: Iterable[Record], rules: LemonRules, now_s: float) -> dict[str, _Count]:
    counts: dict[str, _Count] = {}
    for r in found:
        end = r.attempt.end_time_s
        if end is None or r.attempt.start_time_s is None or end > now_s:
            continue
        decay = 0.5 ** ((now_s - end) / (rules.half_life_days * 86_400.0))
        hours = r.hours
        for node in r.attempt.nodes:
            c = counts.setdefault(node, _Count())
            c.hours += hours
            c.weighted_hours += hours * decay
        for node in blamed(r, rules.status):
            c = counts[node]
            c.events += 1
            c.weight += decay
            c.last_s = end if c.last_s is None else max(c.last_s, end)
            c.jobs.add((r.attempt.key.cluster or "", r.attempt.key.job_id))
            name = r.diagnosis.failure_class or "unknown"
            c.classes[name] = c.classes.get(name, 0) + 1
    return counts


def tail(count: float, mean: float, spread: float) -> float:
    """P(at least `count` events) where `mean` are expected and the rate varies by `spread` from node to node.

    The gamma mixture is summed over `_STEPS` intervals of the rate; a spread of 0 is plain Poisson.
    """
    if count <= 0:
        return 1.0
    if mean <= 0:
        return 0.0
    if spread < _LEAST_SPREAD:
        return poisson_at_least(count, mean)
    shape = 1.0 / (spread * spread)
    return min(1.0, math.fsum(w * poisson_at_least(count, mean * f) for f, w in _mixture(shape)))


@lru_cache(maxsize=16)
def _mixture(shape: float) -> tuple[tuple[float, float], ...]:
    """Factors of the mean and their probabilities: a gamma variable of mean 1, cut into intervals of equal width."""
    top = 1.0 + 12.0 / math.sqrt(shape) + 8.0 / shape
    edges = [top * i / _STEPS for i in range(_STEPS + 1)]
    above = [gamma_above(shape, e * shape) for e in edges]
    pairs = [((edges[i] + edges[i + 1]) / 2, above[i] - above[i + 1]) for i in range(_STEPS)]
    total = math.fsum(w for _, w in pairs)
    mean = math.fsum(f * w for f, w in pairs) / total
    return tuple((f / mean, w / total) for f, w in pairs if w > 0)


def ledger(found: Iterable[Record], *, now_s: float, rules: LemonRules | None = None) -> tuple[NodeLedger, ...]:
    """Every node that ran, most suspicious first. Attempts that end after `now_s` or have no times are left out."""
    rules = rules or LemonRules()
    counts = _counts(found, rules, now_s)
    names = sorted(counts)
    weight = math.fsum(c.weight for c in counts.values())
    hours = math.fsum(c.weighted_hours for c in counts.values())
    p_values, rates = [], []
    for name in names:
        c = counts[name]
        rest = max(0.0, hours - c.weighted_hours)
        # Half an event more keeps a rest in which nothing failed from calling every first failure a proof.
        rate = (max(0.0, weight - c.weight) + 0.5) / rest if rest > 0 else 0.0
        rates.append(rate)
        p_values.append(tail(c.weight, rate * c.weighted_hours, rules.spread) if rest > 0 else 1.0)
    q_values = benjamini_hochberg(p_values)
    out = [
        _entry(name, counts[name], rate, p, q, rules)
        for name, rate, p, q in zip(names, rates, p_values, q_values, strict=True)
    ]
    return tuple(sorted(out, key=lambda e: (e.q, e.p, -e.events, e.node)))


def _entry(name: str, c: _Count, fleet: float, p: float, q: float, rules: LemonRules) -> NodeLedger:
    low, high = poisson_interval(c.events)
    per = 1000.0 / c.hours if c.hours > 0 else 0.0
    rate = 1000.0 * c.weight / c.weighted_hours if c.weighted_hours > 0 else 0.0
    return NodeLedger(
        node=name,
        events=c.events,
        hours=c.hours,
        jobs=len(c.jobs),
        weight=c.weight,
        weighted_hours=c.weighted_hours,
        rate=rate,
        rate_low=low * per,
        rate_high=high * per if c.hours > 0 else math.inf,
        fleet_rate=1000.0 * fleet,
        p=p,
        q=q,
        lemon=(
            q <= rules.false_discovery
            and c.events >= rules.least_events
            and len(c.jobs) >= rules.least_jobs
            and rate >= rules.least_ratio * 1000.0 * fleet
        ),
        classes=tuple(sorted(c.classes, key=lambda k: (-c.classes[k], k))),
        last_s=c.last_s,
    )


def lemons(entries: Iterable[NodeLedger]) -> frozenset[str]:
    """Names for `Fleet.lemons`."""
    return frozenset(e.node for e in entries if e.lemon)


def reasons(entries: Iterable[NodeLedger]) -> Mapping[str, str]:
    """One sentence per lemon, with the figures that it rests on."""
    return {
        e.node: (
            f"{e.events} faults on {e.jobs} jobs in {e.hours:.0f} h: {e.rate:.2f} per 1000 node-hours "
            f"({e.rate_low:.2f} to {e.rate_high:.2f} undecayed), the rest has {e.fleet_rate:.3f}; q = {e.q:.2g}"
        )
        for e in entries
        if e.lemon
    }
