"""The two-sample e-value: valid for every rate, and as fast as the conditional binomial where that holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from registry.statistics.arrays import Floats, floats
from registry.statistics.tolerances import GRID, Margin
from registry.statistics.twosample import Side, log_e

ERRORS = Margin(1.25, 0.001)
MARGINS = st.sampled_from([ERRORS, Margin(1.0, 0.02), Margin(1.25, 0.05), Margin(1.25, 0.0)])
# SciPy overflows at rates next to the least that a float can hold.
RATES = st.one_of(st.sampled_from([0.0, 1e-4, 0.004, 0.5, 0.79]), st.floats(1e-12, 0.8))


def evidence(
    n_c: float, x_c: float | Floats, n_s: float, x_s: float | Floats, rate: float, margin: Margin, side: Side
) -> Floats:
    return log_e(floats(n_c), floats(x_c), floats(n_s), floats(x_s), floats(rate), margin, side)


def expectation(n_c: int, n_s: int, p: float, s: float, rate: float, margin: Margin, side: Side) -> float:
    """E[L] of the worst alternative, by adding up all outcomes."""
    x_c, x_s = np.arange(n_c + 1.0), np.arange(n_s + 1.0)
    ratio = np.exp(evidence(n_c, x_c[:, None], n_s, x_s[None, :], rate, margin, side))
    chance = binom.pmf(x_c, n_c, p)[:, None] * binom.pmf(x_s, n_s, s)[None, :]
    return float((ratio * chance[..., None]).sum(axis=(0, 1)).max())


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), RATES, st.floats(1e-6, 0.95), MARGINS)
def test_expectation_is_at_most_one_along_the_edge_whatever_stable_does(
    n_c: int, n_s: int, s: float, believed: float, margin: Margin
) -> None:
    steep = (margin.ratio - 1.0) * believed > margin.add
    p = min(1.0, margin.ratio * s if steep else s + margin.add)
    assert expectation(n_c, n_s, p, s, believed, margin, Side.ABOVE) <= 1.0 + 1e-9
    assert expectation(n_c, n_s, s, s, believed, margin, Side.ABOVE) <= 1.0 + 1e-9
    if s >= margin.add:
        assert expectation(n_c, n_s, s - margin.add, s, believed, margin, Side.BELOW) <= 1.0 + 1e-9


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.95])
def test_for_rare_events_and_a_pure_ratio_it_is_the_conditional_binomial(share: float) -> None:
    ratio, n, rate = 1.25, 1e8, 1e-6
    odds = share / (1.0 - share)
    grid = np.asarray(GRID)
    p_0, p_r = ratio * odds / (1.0 + ratio * odds), ratio * grid * odds / (1.0 + ratio * grid * odds)
    x_c, x_s = 7.0, 90.0
    expected = x_c * np.log(p_r / p_0) + x_s * np.log((1.0 - p_r) / (1.0 - p_0))
    found = evidence(n * share, x_c, n * (1.0 - share), x_s, rate, Margin(ratio, 0.0), Side.ABOVE)
    assert found == pytest.approx(expected, abs=0.02)


def test_a_canary_that_fails_is_seen_although_stable_never_fails() -> None:
    # A ratio of 1 + add/p̂ would need 450 failures at 5 % and 8,500 at 50 %.
    for share, enough in ((0.05, 5.0), (0.5, 16.0)):
        n = enough / 0.02
        found = evidence(n, enough, n * (1.0 - share) / share, 0.0, 1e-6, ERRORS, Side.ABOVE)
        assert np.log(np.mean(np.exp(found))) > np.log(800.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500), st.integers(1, 5000), st.floats(1e-5, 0.6), st.sampled_from(list(Side)), MARGINS)
def test_evidence_grows_with_every_event_on_its_side_only(
    n_c: int, n_s: int, rate: float, side: Side, margin: Margin
) -> None:
    x_c = np.arange(n_c + 1.0)
    steps = np.diff(evidence(n_c, x_c, n_s, round(n_s * rate), rate, margin, side), axis=0)
    assert bool(np.all(steps >= -1e-9) if side is Side.ABOVE else np.all(steps <= 1e-9))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.floats(1e-4, 0.6), st.sampled_from(list(Side)), MARGINS)
def test_a_batch_in_two_equal_halves_is_the_same_evidence(
    n_c: int, n_s: int, rate: float, side: Side, margin: Margin
) -> None:
    half = evidence(n_c, n_c / 4, n_s, n_s / 5, rate, margin, side)
    whole = evidence(2 * n_c, n_c / 2, 2 * n_s, 2 * n_s / 5, rate, margin, side)
    assert whole == pytest.approx(2.0 * half, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("n_c", "n_s"), [(0.0, 50.0), (50.0, 0.0), (0.0, 0.0)])
def test_one_arm_alone_is_no_evidence(n_c: float, n_s: float) -> None:
    assert not evidence(n_c, n_c, n_s, n_s, 0.01, ERRORS, Side.ABOVE).any()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 10_000),
    st.integers(1, 10_000),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(1e-9, 1.0 - 1e-9),
    st.sampled_from(list(Side)),
    MARGINS,
)
def test_it_is_finite_for_every_count(
    n_c: int, n_s: int, p: float, s: float, rate: float, side: Side, margin: Margin
) -> None:
    assert np.isfinite(evidence(n_c, round(n_c * p), n_s, round(n_s * s), rate, margin, side)).all()
