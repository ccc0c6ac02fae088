"""Intervals for counts: how far a rate or a mean may lie from what was seen. Plain arithmetic, no tables.

Sources: Wilson 1927 for proportions; Garwood 1936 (exact) for Poisson counts, beyond `EXACT` by Wilson and Hilferty
1931, which is then right to four digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: 97.5 % quantile of the normal distribution: two-sided intervals of 95 %.
Z = 1.959963984540054
#: Counts up to this one are solved exactly.
EXACT = 100
_STEPS = 60


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % interval of a proportion; (0, 1) where nothing was tried.

    Raises:
        ValueError: more successes than trials, or a negative count.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials}")
    if trials == 0:
        return 0.0, 1.0
    p, z2 = successes / trials, Z * Z
    middle = p + z2 / (2 * trials)
    half = Z * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials * trials))
    whole = 1 + z2 / trials
    return max(0.0, min(p, (middle - half) / whole)), min(1.0, max(p, (middle + half) / whole))


def poisson(count: int) -> tuple[float, float]:
    """95 % interval of the mean of a Poisson count; its lower end is 0 where nothing was counted.

    Raises:
        ValueError: a negative count.
    """
    if count < 0:
        raise ValueError(f"{count} events")
    if count > EXACT:
        return _cube(count, -Z), _cube(count + 1, Z)
    low = 0.0 if count == 0 else _solve(lambda mean: _at_most(count - 1, mean), 0.975, count)
    return low, _solve(lambda mean: _at_most(count, mean), 0.025, count)


def mean_time(total: float, failures: int) -> tuple[float | None, float, float | None]:
    """Mean time to failure over `total` hours: (mean, lower, upper). None stands for unbounded: nothing failed yet."""
    low, high = poisson(failures)
    return (
        total / failures if failures else None,
        total / high,
        total / low if low > 0 else None,
    )


def _cube(k: int, z: float) -> float:
    return k * (1 - 1 / (9 * k) + z / (3 * math.sqrt(k))) ** 3


def _at_most(k: int, mean: float) -> float:
    """P(X <= k) for a Poisson X, summed on the logarithmic scale so that large means do not underflow."""
    if mean <= 0:
        return 1.0
    logs = [i * math.log(mean) - mean - math.lgamma(i + 1) for i in range(k + 1)]
    top = max(logs)
    return min(1.0, math.exp(top) * math.fsum(math.exp(x - top) for x in logs))


def _solve(falling: Callable[[float], float], target: float, near: int) -> float:
    low, high = 0.0, near + 10.0 * math.sqrt(near + 1.0) + 10.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if falling(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
