"""E-values within one sample, by adding up all outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from registry.statistics.arrays import floats
from registry.statistics.onesample import log_e_limit, log_e_net


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(1e-4, 0.9), st.floats(1e-6, 1.0))
def test_events_within_the_limit_never_gain(n: int, limit: float, part: float) -> None:
    x = np.arange(n + 1.0)
    chance = binom.pmf(x, n, limit * part)
    ratio = np.exp(log_e_limit(floats(n), x, floats(limit)))
    assert (ratio * chance[:, None]).sum(axis=0).max() <= 1.0 + 1e-9


def test_at_the_limit_itself_the_expectation_is_exactly_one() -> None:
    x = np.arange(31.0)
    ratio = np.exp(log_e_limit(floats(30.0), x, floats(0.031)))
    assert (ratio * binom.pmf(x, 30, 0.031)[:, None]).sum(axis=0) == pytest.approx(1.0)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 0.45), st.sampled_from([0.001, 0.02, 0.05]), st.floats(0.0, 0.6), st.integers(1, 9))
def test_noise_in_both_arms_never_gains(minus: float, slack: float, believed: float, n: int) -> None:
    plus = minus + slack
    total = np.zeros(7)
    for i in range(n + 1):
        for j in range(n - i + 1):
            chance = multinomial.pmf([i, j, n - i - j], n, [plus, minus, 1.0 - plus - minus])
            total = total + chance * np.exp(log_e_net(*map(floats, (n, i, j, slack, believed))))
    assert total.max() <= 1.0 + 1e-9


def test_one_sided_events_gain_and_opposite_ones_take_it_back() -> None:
    alone = log_e_net(*map(floats, (100.0, 20.0, 0.0, 0.001, 0.001)))
    balanced = log_e_net(*map(floats, (100.0, 20.0, 20.0, 0.001, 0.1)))
    assert alone.max() > np.log(400.0)
    assert balanced.max() < 0.0
