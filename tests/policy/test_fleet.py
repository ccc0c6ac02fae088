"""The made-up fleet agrees with what is published, and tells policies apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from attribution.policy import Policy, load_policy
from attribution.policy.document import parse_policy
from attribution.policy.fleet import LLAMA3, LLAMA3_RATE, RSC1_RATE, Expectation, Plant, expect
from tests.make import analyzer

TAXONOMY = analyzer().ruleset.taxonomy
BLIND = parse_policy(
    b"rows: [{id: all, action: restart}]\n"
    b"limits: {max_restarts: 9999, max_failures_without_progress: 9999, max_same_root_without_progress: 9999,"
    b" crash_loop_within_s: 0}",
    "blind.yaml",
)


def of(policy: Policy, runs: int = 6, **plant: float) -> Expectation:
    return expect(policy, taxonomy=TAXONOMY, plant=replace(Plant(), **plant), runs=runs)  # type: ignore[arg-type]


def test_the_mix_is_the_published_one() -> None:
    assert sum(count for _, _, count in LLAMA3) == 419
    assert all(name in TAXONOMY for _, name, _ in LLAMA3)
    assert pytest.approx(3.79, abs=0.01) == LLAMA3_RATE


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_the_projected_times_to_failure(gpus: int, hours: float) -> None:
    assert Plant(gpus=gpus, failures=RSC1_RATE).mttf_s / 3600 == pytest.approx(hours, rel=0.03)


@pytest.mark.parametrize(("minutes", "ratio"), [(60, 0.70), (5, 0.93)])
def test_the_published_ratios_come_out(minutes: float, ratio: float) -> None:
    """One job on 16,000 GPUs, faults that do not stay, no queue: as the study computes it."""
    got = of(
        BLIND, gpus=16_000, failures=RSC1_RATE, checkpoint_s=minutes * 60.0, queue_s=0.0, detect_s=0.0, persistent=0.0
    )
    assert got.ettr == pytest.approx(ratio, abs=0.025)


def test_faults_that_stay_make_exclusion_worth_it() -> None:
    blind, default = of(BLIND), of(load_policy())
    assert default.ettr_low > blind.ettr_high
    assert blind.failures_per_day > default.failures_per_day


def test_without_failures_only_the_start_is_lost() -> None:
    got = of(load_policy(), failures=0.0)
    assert got.ettr == pytest.approx(1 - 360 / (30 * 86_400))


def test_equal_seeds_give_equal_results_and_the_shares_add_up() -> None:
    one, two = of(load_policy(), runs=3), of(load_policy(), runs=3)
    assert one == two
    assert one.ettr + one.redone + one.starting + one.waiting == pytest.approx(1.0)
