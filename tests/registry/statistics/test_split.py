"""The split check."""

from __future__ import annotations

import numpy as np
import pytest

from registry.statistics import memory, split
from registry.statistics.batch import SplitCounts
from registry.statistics.split import SplitTest

R = 300


def run(true_share: float, asked: float, slack: float = 0.0, looks: int = 60, n: int = 1000) -> SplitTest:
    rng = np.random.default_rng(1)
    state = split.begin(R)
    for _ in range(looks):
        total = np.full((R, 1), float(n))
        canary = rng.binomial(n, true_share, (R, 1)).astype(float)
        state = split.look(state, SplitCounts(np.full((R, 1), asked), canary, total), slack)
    return state


def fired(state: SplitTest) -> float:
    return float((memory.log_level(state.memory)[:, 0] >= np.log(400.0)).mean())


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.95])
def test_the_requested_split_does_not_fire(share: float) -> None:
    assert fired(run(share, share)) <= 0.01


@pytest.mark.parametrize(("true_share", "asked"), [(0.06, 0.05), (0.04, 0.05), (0.47, 0.5), (0.93, 0.95)])
def test_a_wrong_split_fires_in_either_direction(true_share: float, asked: float) -> None:
    assert fired(run(true_share, asked)) > 0.95


def test_the_error_of_counting_keys_is_allowed_for() -> None:
    assert fired(run(0.052, 0.05, slack=0.05, looks=400)) == 0.0
    assert fired(run(0.052, 0.05, slack=0.0, looks=400)) > 0.5
    assert fired(run(0.07, 0.05, slack=0.05)) > 0.95


def test_strata_at_different_shares_are_no_fault() -> None:
    rng = np.random.default_rng(2)
    share = np.array([[0.05, 0.5]])
    state = split.begin(1)
    for _ in range(100):
        # Traffic moves between the strata, so the pooled share moves too.
        total = rng.integers(0, 1000, (1, 2)).astype(float)
        canary = rng.binomial(total.astype(int), share).astype(float)
        state = split.look(state, SplitCounts(share, canary, total), 0.0)
    assert fired(state) == 0.0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_or_nothing_says_nothing(share: float) -> None:
    counts = SplitCounts(np.full((1, 1), share), np.full((1, 1), 500.0 * share), np.full((1, 1), 500.0))
    state = split.look(split.begin(1), counts, 0.0)
    assert state.memory.looks[0, 0] == 0.0
    assert state.total[0] == 0.0
