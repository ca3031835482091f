"""The few special functions that the intervals need, on plain floats."""

from __future__ import annotations

import math

_TINY = 1e-300
_ROUNDS = 500


def normal_quantile(p: float) -> float:
    """z with Φ(z) = p, for 0 < p < 1. Accurate to about 1e-14 (Newton on the complementary error function).

    Raises:
        ValueError: when p is not strictly between 0 and 1.
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"{p} is no probability strictly between 0 and 1")
    if p > 0.5:
        return -normal_quantile(1.0 - p)
    # Start from the tail's leading term; Halley's rule on ln Φ converges from there for every p.
    z = -math.sqrt(max(0.0, -2.0 * math.log(2.0 * p)))
    for _ in range(_ROUNDS):
        below = 0.5 * math.erfc(-z / math.sqrt(2.0))
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        newton = (below - p) / density
        step = newton / (1.0 + 0.5 * newton * z)
        z -= step
        if abs(step) <= 1e-15 * max(1.0, abs(z)):
            break
    return z


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), a, b > 0, by Lentz's continued fraction."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges quickly only below the mean.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def beta_quantile(p: float, a: float, b: float) -> float:
    """x with I_x(a, b) = p, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        if beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _off_zero(1.0 + term * d)
            c = _off_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
