"""The figures that the planner promises."""

from __future__ import annotations

import pytest

from registry.statistics.planner import requests_to_prove, requests_to_roll_back, step
from registry.statistics.tolerances import Margin, Tolerances

PROVE = Tolerances().prove


@pytest.mark.parametrize(("rate", "requests"), [(0.005, 1953), (0.01, 976), (0.0, 598)])
def test_requests_that_a_step_needs(rate: float, requests: int) -> None:
    assert requests_to_prove(rate, PROVE) == requests


@pytest.mark.parametrize(("share", "seconds"), [(0.05, 391), (0.25, 78), (0.5, 39)])
def test_a_step_takes_as_long_as_its_share_is_small(share: float, seconds: int) -> None:
    plan = step(0.005, 0.01, share, 100.0, PROVE)
    assert round(plan.seconds) == seconds
    assert plan.advice is None


def test_thin_traffic_gets_advice() -> None:
    plan = step(0.005, 0.01, 0.05, 10.0, PROVE)
    assert 3600 < plan.seconds < 4000
    assert plan.advice is not None
    assert "raise the share or use shadow" in plan.advice


def test_the_slower_of_the_gates_sets_the_length() -> None:
    assert step(0.0001, 0.01, 0.5, 100.0, PROVE).requests == requests_to_prove(0.01, PROVE)


def test_no_traffic_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match="advance by command"):
        step(0.005, 0.01, 0.05, 0.0, PROVE)


def test_a_fault_of_two_percent_takes_about_nine_hundred_requests() -> None:
    limit = float(Tolerances().errors.limit(0.005))
    assert requests_to_roll_back(0.02, limit) == 907


def test_a_tolerated_rate_is_never_found() -> None:
    with pytest.raises(ValueError, match="within the limit"):
        requests_to_roll_back(0.006, 0.00625)


def test_a_margin_needs_a_ratio_of_one_and_a_fraction() -> None:
    for ratio, add in ((0.9, 0.001), (1.25, 1.0), (1.25, -0.1)):
        with pytest.raises(ValueError, match="percentage points"):
            Margin(ratio, add)
