"""Memory of evidence: the level of the test, late onset, looks without data."""

from __future__ import annotations

import numpy as np
import pytest

from registry.statistics import memory
from registry.statistics.arrays import floats

R = 4000


def likelihoods(rng: np.random.Generator, rate: float, looks: int) -> np.ndarray:
    """log L of 20 trials a look: H0 10 %, alternative 30 %. Shape (looks, R)."""
    x = rng.binomial(20, rate, (looks, R))
    return np.asarray(x * np.log(3.0) + (20 - x) * np.log(0.7 / 0.9))


def run(log_l: np.ndarray, endless: bool = False) -> np.ndarray:
    """Levels after each look, (looks, R)."""
    state = memory.begin(R, 1, 1)
    levels = []
    for row in log_l:
        state = memory.grow(state, row[:, None, None], np.ones((R, 1), dtype=bool), endless)
        levels.append(memory.log_level(state)[:, 0])
    return np.asarray(levels)


def test_under_the_null_it_ever_reaches_one_over_alpha_in_at_most_alpha() -> None:
    levels = run(likelihoods(np.random.default_rng(1), 0.10, 150))
    ever = (levels.max(axis=0) >= np.log(20.0)).mean()
    # 5 % and three standard errors.
    assert ever <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / R)


def test_its_mean_never_exceeds_one() -> None:
    levels = run(likelihoods(np.random.default_rng(2), 0.10, 5))
    assert np.exp(levels).mean(axis=1).max() <= 1.1


def test_a_late_fault_is_found_nearly_as_fast_as_an_early_one() -> None:
    rng = np.random.default_rng(3)
    early = run(likelihoods(rng, 0.30, 40))
    late = run(np.concatenate([likelihoods(rng, 0.10, 120), likelihoods(rng, 0.30, 40)]))[120:]
    delay = [float(np.median((levels < np.log(400.0)).sum(axis=0))) for levels in (early, late)]
    product = np.cumsum(np.concatenate([likelihoods(rng, 0.10, 120), likelihoods(rng, 0.30, 40)]), axis=0)
    assert delay[1] <= 2.5 * delay[0]
    # A plain product has sunk so deep by then that it never comes back in this time.
    assert (product.max(axis=0) < np.log(400.0)).mean() > 0.9


def test_an_endless_watch_waits_at_least_one_over_alpha_looks_on_average() -> None:
    levels = run(likelihoods(np.random.default_rng(4), 0.10, 60), endless=True)
    first = np.where((levels >= np.log(20.0)).any(axis=0), (levels >= np.log(20.0)).argmax(axis=0) + 1, 60)
    assert first.mean() >= 20.0


def test_a_look_without_data_changes_nothing() -> None:
    state = memory.begin(2, 1, 3)
    state = memory.grow(state, np.full((2, 1, 3), 0.5), np.array([[True], [False]]))
    assert state.looks.tolist() == [[1.0], [0.0]]
    again = memory.grow(state, np.full((2, 1, 3), 9.0), np.zeros((2, 1), dtype=bool))
    assert again.to_state() == state.to_state()


def test_the_first_look_carries_half_of_the_weight() -> None:
    state = memory.grow(memory.begin(1, 1, 1), np.full((1, 1, 1), 2.0), np.ones((1, 1), dtype=bool))
    assert memory.log_level(state)[0, 0] == pytest.approx(np.log(0.5) + 2.0)
    state = memory.grow(state, np.zeros((1, 1, 1)), np.ones((1, 1), dtype=bool))
    assert np.exp(memory.log_level(state)[0, 0]) == pytest.approx(0.5 * np.exp(2.0) + 1 / 6)


def test_a_likelihood_of_zero_is_survived() -> None:
    present = np.ones((1, 1), dtype=bool)
    state = memory.grow(memory.begin(1, 1, 1), floats([[[-np.inf]]]), present)
    state = memory.grow(state, floats([[[10.0]]]), present)
    assert memory.log_level(state)[0, 0] == pytest.approx(np.log(1 / 6) + 10.0)
