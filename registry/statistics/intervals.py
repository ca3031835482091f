"""Confidence limits of rates, and of the paired loss between two models judged on the same rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from registry.statistics.special import beta_quantile, normal_quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """Limits, low ≤ high."""

    low: float
    high: float


def clopper_pearson(events: int, n: int, confidence: float = 0.95) -> Interval:
    """Exact two-sided limits of a binomial rate (Clopper and Pearson 1934). n = 0 gives [0, 1]."""
    _check(events, n, confidence)
    alpha = 1.0 - confidence
    return Interval(_lower(events, n, alpha / 2), _upper(events, n, alpha / 2))


def clopper_pearson_upper(events: int, n: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper limit: the rate exceeds it with probability at most 1 − confidence."""
    _check(events, n, confidence)
    return _upper(events, n, 1.0 - confidence)


def clopper_pearson_lower(events: int, n: int, confidence: float = 0.95) -> float:
    """Exact one-sided lower limit."""
    _check(events, n, confidence)
    return _lower(events, n, 1.0 - confidence)


def wilson(events: int, n: int, confidence: float = 0.95) -> Interval:
    """Two-sided score limits of a binomial rate (Wilson 1927): for display. n = 0 gives [0, 1]."""
    _check(events, n, confidence)
    if n == 0:
        return Interval(0.0, 1.0)
    z = normal_quantile(0.5 + confidence / 2.0)
    rate, pull = events / n, z * z / n
    centre = (rate + pull / 2.0) / (1.0 + pull)
    half = z / (1.0 + pull) * math.sqrt(rate * (1.0 - rate) / n + pull / (4.0 * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def tango_upper(lost: int, won: int, n: int, confidence: float = 0.95) -> float:
    """One-sided upper score limit of the loss (lost − won)/n of n paired rows (Tango 1998).

    lost: rows the source got right and the engine wrong; won: the reverse. n = 0 gives 1.
    """
    return _tango(lost, won, n, confidence)


def tango_lower(lost: int, won: int, n: int, confidence: float = 0.95) -> float:
    """One-sided lower score limit of the loss. n = 0 gives −1."""
    return -_tango(won, lost, n, confidence)


def _tango(lost: int, won: int, n: int, confidence: float) -> float:
    _check(lost + won, n, confidence)
    _check(min(lost, won), n, confidence)
    if n == 0:
        return 1.0
    z = normal_quantile(confidence)
    # The score falls strictly as the supposed loss grows: the limit is where it crosses −z.
    low, high = (lost - won) / n, 1.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if _score(lost, won, n, middle) > -z:
            low = middle
        else:
            high = middle


def _score(lost: int, won: int, n: int, loss: float) -> float:
    """Tango's score statistic, with the rate of `won` at its maximum likelihood under that loss."""
    square = 2.0 * n
    linear = -lost - won + (2.0 * n - lost + won) * loss
    constant = -won * loss * (1.0 - loss)
    rate = (math.sqrt(max(0.0, linear * linear - 4.0 * square * constant)) - linear) / (2.0 * square)
    variance = n * (2.0 * max(rate, 0.0) + loss * (1.0 - loss))
    gap = lost - won - n * loss
    if variance <= 0.0:
        return 0.0 if gap == 0.0 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def _lower(events: int, n: int, alpha: float) -> float:
    return 0.0 if events == 0 else beta_quantile(alpha, events, n - events + 1)


def _upper(events: int, n: int, alpha: float) -> float:
    return 1.0 if events == n else beta_quantile(1.0 - alpha, events + 1, n - events)


def _check(events: int, n: int, confidence: float) -> None:
    if not 0 <= events <= n:
        raise ValueError(f"{events} events of {n}: events lie between 0 and the number of rows")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence} must lie strictly between 0 and 1, e.g. 0.95")
