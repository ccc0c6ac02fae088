from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.report.html.intervals import mean_time, poisson, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (1, 1, 0.2065, 1.0), (5, 10, 0.2366, 0.7634), (0, 0, 0.0, 1.0)],
)
def test_wilson_gives_published_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904), (100, 81.3639, 121.6273), (500, 457.1286, 545.8093)],
)
def test_poisson_gives_garwoods_values(count: int, low: float, high: float) -> None:
    assert poisson(count) == pytest.approx((low, high), abs=1e-3)


@given(st.integers(0, 100_000))
def test_poisson_holds_its_count(count: int) -> None:
    low, high = poisson(count)
    assert low <= count < high


@given(st.integers(0, 500), st.integers(0, 500))
def test_wilson_holds_its_share(a: int, b: int) -> None:
    low, high = wilson(min(a, b), max(a, b))
    share = min(a, b) / max(a, b) if max(a, b) else 0.5
    assert 0 <= low <= share <= high <= 1


def test_nothing_failed_yet_bounds_the_mean_time_from_below_only() -> None:
    mean, low, high = mean_time(100.0, 0)
    assert mean is None
    assert high is None
    assert low == pytest.approx(27.1, abs=0.1)


def test_more_successes_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="-1 events"):
        poisson(-1)
