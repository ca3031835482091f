"""The special functions against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from registry.statistics.special import beta_cdf, beta_quantile, normal_quantile


@given(st.floats(1e-12, 1.0 - 1e-12))
def test_normal_quantile_equals_scipy(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_normal_quantile_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        normal_quantile(p)


# One step of a float below 1 SciPy itself is 3e-9 off (the arcsine law, a = b = 0.5).
@given(st.floats(1e-6, 1.0 - 1e-6), st.floats(0.5, 5000.0), st.floats(0.5, 5000.0))
def test_beta_cdf_equals_scipy(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-11)


def test_beta_cdf_holds_beside_its_ends() -> None:
    left = 2.0**-53
    above = 2 / math.pi * math.asin(math.sqrt(left))
    assert 1.0 - beta_cdf(1.0 - left, 0.5, 0.5) == pytest.approx(above, rel=1e-6)
    assert beta_cdf(0.0, 2.0, 3.0) == beta_cdf(-1.0, 2.0, 3.0) == 0.0
    assert beta_cdf(1.0, 2.0, 3.0) == beta_cdf(2.0, 2.0, 3.0) == 1.0


@pytest.mark.parametrize("p", [0.001, 0.025, 0.5, 0.975])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 900), (50, 7), (2000, 90000)])
def test_beta_quantile_equals_scipy(p: float, a: int, b: int) -> None:
    assert np.isclose(beta_quantile(p, a, b), stats.beta.ppf(p, a, b), rtol=1e-9)
