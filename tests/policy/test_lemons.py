"""Lemons are found by evidence against exposure; chance makes none, and no order of attempts matters."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.policy.lemons import LemonRules, NodeLedger, blamed, ledger, lemons, reasons, tail
from attribution.policy.past import Record, records
from attribution.policy.statistics import benjamini_hochberg, poisson_at_least, poisson_interval, wilson
from tests.policy.make import frame, row

DAY = 86_400.0


def runs(nodes: int, days: int, faults: dict[str, int], seed: int = 1, background: float = 0.0) -> list[Record]:
    """One day on four nodes after another; named nodes fail on their first so many attempts, others by chance."""
    rng, left, rows = random.Random(seed), dict(faults), []
    for day in range(days):
        for block in range(0, nodes, 4):
            here = [f"n{i:03d}" for i in range(block, min(block + 4, nodes))]
            bad = next((n for n in here if left.get(n, 0) > 0), None)
            if bad is not None:
                left[bad] -= 1
            elif rng.random() < background:
                bad = rng.choice(here)
            rows.append(
                row(0, job=f"{day}{block:03d}", nodes=here, start_time_s=day * DAY, end_time_s=(day + 1) * DAY)
                | {"outcome": "failed" if bad else "completed", "culprit_nodes": [bad] if bad else []}
                | {"domain": "infrastructure", "class": "gpu_hw.off_bus"}
            )
    return list(records(frame(*rows)))


def test_a_planted_lemon_is_found_and_explained() -> None:
    entries = ledger(runs(64, 30, {"n007": 6}, background=0.02), now_s=30 * DAY)
    assert lemons(entries) == {"n007"}
    assert entries[0].node == "n007"
    assert "6 faults on 6 jobs" in reasons(entries)["n007"]
    assert entries[0].rate_low < 1000 * 6 / (30 * 24) < entries[0].rate_high


@pytest.mark.parametrize("seed", range(8))
def test_chance_makes_no_lemons(seed: int) -> None:
    assert lemons(ledger(runs(64, 30, {}, seed=seed, background=0.05), now_s=30 * DAY)) == frozenset()


def test_one_fault_in_a_quiet_fleet_is_no_proof() -> None:
    assert lemons(ledger(runs(16, 10, {"n003": 1}), now_s=10 * DAY)) == frozenset()


def test_one_job_that_fails_often_on_a_node_makes_no_lemon() -> None:
    same = [
        row(i, nodes=["n000", "n001", "n002"], start_time_s=i * DAY, end_time_s=(i + 1) * DAY, culprit_nodes=["n000"])
        | {"domain": "infrastructure", "class": "gpu_hw.off_bus"}
        for i in range(8)
    ]
    entries = ledger([*runs(64, 30, {}), *records(frame(*same))], now_s=30 * DAY)
    assert lemons(entries) == frozenset()
    assert entries[0].node == "n000" and entries[0].q < 0.05


def test_old_faults_fade() -> None:
    found = runs(64, 30, {"n007": 6}, background=0.02)
    rows = [*found, *runs(64, 400, {}, seed=3, background=0.02)]
    assert lemons(ledger(rows, now_s=400 * DAY)) == frozenset()


def test_only_the_infrastructure_is_blamed_and_never_on_a_guess() -> None:
    def who(**more: Any) -> tuple[str, ...]:
        base: dict[str, Any] = {"culprit_nodes": ["gpu-001"], "domain": "infrastructure"} | more
        return blamed(records(frame(row(0, **base)))[0])

    assert who() == ("gpu-001",)
    assert who(status="hypothesis") == ()
    assert who(domain="workload") == ()
    assert who(culprit_nodes=["login-1"]) == ()
    assert who(culprit_nodes=["gpu-001", "gpu-002"]) == ()  # all of them: nobody's fault
    assert who(outcome="completed") == ()


@given(st.permutations(range(40)))
def test_the_order_of_attempts_does_not_matter(order: list[int]) -> None:
    found = runs(16, 10, {"n001": 3, "n009": 2})
    shuffled = [found[i] for i in order]

    def told(entries: tuple[NodeLedger, ...]) -> list[tuple[str, int, bool, float]]:
        return [(e.node, e.events, e.lemon, round(e.q, 9)) for e in entries]

    assert told(ledger(shuffled, now_s=10 * DAY)) == told(ledger(found, now_s=10 * DAY))


COUNTS, MEANS = st.floats(0.05, 60.0), st.floats(0.01, 80.0)


@settings(max_examples=40)
@given(COUNTS, MEANS, st.sampled_from([0.0, 0.005, 0.1, 0.5, 1.0, 1.5]))
def test_a_tail_is_a_probability_and_falls_with_the_count(count: float, mean: float, spread: float) -> None:
    p, more = tail(count, mean, spread), tail(count + 1.0, mean, spread)
    assert 0.0 <= more <= p + 1e-12 <= 1.0 + 1e-9
    assert tail(count, mean * 1.5, spread) >= p - 1e-9


def test_varying_rates_are_kinder_than_plain_poisson() -> None:
    assert tail(6, 1.0, 0.0) == pytest.approx(poisson_at_least(6, 1.0))
    assert tail(6, 1.0, 0.0) == pytest.approx(0.000594, rel=1e-3)
    # negative binomial with r = 4 and mean 1: P(X >= 6) = 0.003066
    assert tail(6, 1.0, 0.5) == pytest.approx(0.003066, rel=0.01)


@given(st.lists(st.floats(0.0, 1.0), max_size=50))
def test_adjusted_values_are_never_smaller_and_keep_the_order(p: list[float]) -> None:
    q = benjamini_hochberg(p)
    assert all(a >= b - 1e-12 for a, b in zip(q, p, strict=True))
    assert all(q[i] <= q[j] for i in range(len(p)) for j in range(len(p)) if p[i] < p[j])


def test_adjusted_values_of_a_known_list() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.02, 0.04, 0.04, 0.02))


def test_intervals_are_the_known_ones() -> None:
    assert poisson_interval(0) == pytest.approx((0.0, 3.6889), abs=1e-3)
    assert poisson_interval(10) == pytest.approx((4.7954, 18.3904), abs=1e-3)
    assert poisson_interval(1000) == pytest.approx((938.97, 1063.95), abs=0.1)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-3)


def test_rules_can_be_stricter() -> None:
    found = runs(64, 30, {"n007": 6}, background=0.02)
    assert lemons(ledger(found, now_s=30 * DAY, rules=LemonRules(least_events=7))) == frozenset()
