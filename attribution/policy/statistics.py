"""Small statistics for policy: intervals of shares and rates, tail probabilities, many tests at once. Plain arithmetic.

Sources: Wilson 1927 (share of a count); Garwood 1936 (exact interval of a Poisson mean); Wilson and Hilferty 1931 (gamma
quantiles, good to three digits, used beyond `EXACT` events); Benjamini and Hochberg 1995 (false discovery rate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

#: 97.5 % quantile of the normal distribution: two-sided intervals of 95 %.
Z = 1.959963984540054
#: Counts up to this one are solved exactly.
EXACT = 100.0
_STEPS = 80


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """95 % interval of a share; (0, 1) where nothing was tried."""
    if trials <= 0:
        return 0.0, 1.0
    p, z2 = successes / trials, Z * Z
    middle = p + z2 / (2 * trials)
    half = Z * math.sqrt(max(0.0, p * (1 - p) / trials + z2 / (4 * trials * trials)))
    whole = 1 + z2 / trials
    return max(0.0, min(p, (middle - half) / whole)), min(1.0, max(p, (middle + half) / whole))


def gamma_above(shape: float, x: float) -> float:
    """P(X > x) for a gamma variable of this shape and scale 1. For a whole shape k this is P(Poisson(x) < k)."""
    if x <= 0:
        return 1.0
    if x < shape + 1:
        return max(0.0, 1.0 - _series(shape, x))
    return _fraction(shape, x)


def _series(a: float, x: float) -> float:
    total = term = 1.0 / a
    n = a
    for _ in range(10_000):
        n += 1.0
        term *= x / n
        total += term
        if term < total * 1e-15:
            break
    return total * math.exp(-x + a * math.log(x) - math.lgamma(a))


def _fraction(a: float, x: float) -> float:
    """Lentz's continued fraction of the upper incomplete gamma function."""
    tiny = 1e-300
    b = x + 1.0 - a
    c, d = 1.0 / tiny, 1.0 / b
    h = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2.0
        d = 1.0 / (step * d + b or tiny)
        c = b + step / c or tiny
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return h * math.exp(-x + a * math.log(x) - math.lgamma(a))


def poisson_at_least(count: float, mean: float) -> float:
    """P(X >= count) for a Poisson mean; decayed (broken) counts are read through the gamma function."""
    if count <= 0:
        return 1.0
    if mean <= 0:
        return 0.0
    return _series(count, mean) if mean < count + 1 else 1.0 - _fraction(count, mean)


def poisson_interval(count: float) -> tuple[float, float]:
    """95 % interval of the mean of which `count` events were seen (Garwood); the lower end is 0 for none."""
    low = 0.0 if count <= 0 else _quantile(count, 0.025)
    return low, _quantile(count + 1.0, 0.975)


def _quantile(shape: float, p: float) -> float:
    if shape > EXACT:
        z = Z if p > 0.5 else -Z
        return float(shape * (1 - 1 / (9 * shape) + z / (3 * math.sqrt(shape))) ** 3)
    return _solve(lambda x: gamma_above(shape, x), 1.0 - p, shape)


def _solve(falling: Callable[[float], float], target: float, near: float) -> float:
    low, high = 0.0, near + 12.0 * math.sqrt(near + 1.0) + 12.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > target else (low, middle)
    return (low + high) / 2


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given: those at most q form a list in which a share q is false, on average."""
    n = len(p_values)
    order = sorted(range(n), key=lambda i: (p_values[i], i))
    out = [1.0] * n
    least = 1.0
    for rank in range(n, 0, -1):
        i = order[rank - 1]
        least = min(least, p_values[i] * n / rank)
        out[i] = least
    return tuple(out)
