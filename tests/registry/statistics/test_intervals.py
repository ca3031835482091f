"""Limits of rates and of the paired loss, against scipy and against a numerical likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from registry.statistics.intervals import (
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
    tango_lower,
    tango_upper,
    wilson,
)

COUNTS = st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_and_wilson_equal_scipy(counts: tuple[int, int], confidence: float) -> None:
    events, n = counts
    if n == 0:
        assert (clopper_pearson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
        return
    oracle = stats.binomtest(events, n)
    for ours, method in ((clopper_pearson, "exact"), (wilson, "wilson")):
        found = ours(events, n, confidence)
        limits = oracle.proportion_ci(confidence, method=method)
        assert (found.low, found.high) == pytest.approx((limits.low, limits.high), abs=1e-9)


@given(COUNTS.filter(lambda c: c[1] > 0))
def test_one_sided_limits_are_those_of_the_wider_two_sided_interval(counts: tuple[int, int]) -> None:
    both = clopper_pearson(*counts, confidence=0.90)
    assert clopper_pearson_upper(*counts, confidence=0.95) == pytest.approx(both.high)
    assert clopper_pearson_lower(*counts, confidence=0.95) == pytest.approx(both.low)


def score_by_search(lost: int, won: int, n: int, loss: float) -> float:
    """Tango's statistic with the nuisance rate found by maximising the likelihood numerically."""

    def minus_log(rate: float) -> float:
        cells = ((lost, rate + loss), (won, rate), (n - lost - won, 1.0 - 2.0 * rate - loss))
        return -sum(k * math.log(max(p, 1e-300)) for k, p in cells if k)

    low, high = max(0.0, -loss), (1.0 - loss) / 2.0
    rate = float(optimize.minimize_scalar(minus_log, bounds=(low, high), options={"xatol": 1e-12}).x)
    return (lost - won - n * loss) / math.sqrt(n * (2.0 * rate + loss * (1.0 - loss)))


@pytest.mark.parametrize(
    ("lost", "won", "n"), [(12, 2, 100), (16, 4, 1000), (3, 9, 200), (1, 1, 50), (40, 38, 2292)]
)
def test_the_tango_limit_is_where_the_score_meets_the_quantile(lost: int, won: int, n: int) -> None:
    limit = tango_upper(lost, won, n, 0.95)
    assert score_by_search(lost, won, n, limit) == pytest.approx(stats.norm.ppf(0.05), abs=1e-4)
    assert tango_lower(lost, won, n) == pytest.approx(-tango_upper(won, lost, n))


@given(st.integers(1, 3000))
def test_without_discordant_rows_the_limit_has_its_closed_form(n: int) -> None:
    z = stats.norm.ppf(0.95)
    assert tango_upper(0, 0, n) == pytest.approx(z * z / (n + z * z), rel=1e-6)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(61, 2000))
def test_the_tango_limit_grows_with_every_lost_row(lost: int, won: int, n: int) -> None:
    estimate = (lost - won) / n
    assert tango_lower(lost, won, n) <= estimate <= tango_upper(lost, won, n)
    assert tango_upper(lost + 1, won, n) > tango_upper(lost, won, n)


def test_the_tango_limit_covers_the_true_loss() -> None:
    rng = np.random.default_rng(11)
    n, loss = 600, 0.01
    draws = rng.multinomial(n, [0.03 + loss, 0.03, 0.94 - loss], size=400)
    covered = sum(tango_upper(int(a), int(b), n) >= loss for a, b, _ in draws)
    # Binomial(400, .95) lies above 364 with probability 1 − 1e-4.
    assert covered >= 364


@pytest.mark.parametrize(("events", "n"), [(-1, 10), (11, 10)])
def test_impossible_counts_are_refused(events: int, n: int) -> None:
    with pytest.raises(ValueError, match="between 0 and the number of rows"):
        clopper_pearson(events, n)


def test_a_confidence_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.95"):
        wilson(1, 10, 1.0)
