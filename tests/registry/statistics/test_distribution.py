"""The whole-distribution test."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from registry.statistics import distribution, memory
from registry.statistics.distribution import DistributionTest

MIX = np.array([0.4, 0.3, 0.2, 0.1])


def look(
    test: DistributionTest, canary: np.ndarray, stable: np.ndarray, seconds: float = 10.0
) -> DistributionTest:
    replicates = stable.shape[0]
    return distribution.look(
        test,
        canary.astype(float)[:, None, :],
        stable.astype(float)[:, None, :],
        seconds,
        np.ones(replicates),
        np.ones(replicates, dtype=bool),
    )


def test_its_expectation_is_at_most_one_whatever_was_learned_before() -> None:
    n_c, n_s = 4, 12
    outcomes = [(i, j) for i in range(n_c + 1) for j in range(n_s + 1)]
    canary = np.array([[i, n_c - i] for i, _ in outcomes])
    stable = np.array([[j, n_s - j] for _, j in outcomes])
    state = distribution.begin(len(outcomes), 2)
    history = np.repeat(np.array([[30.0, 10.0]]), len(outcomes), axis=0)
    wrong = np.repeat(np.array([[5.0, 60.0]]), len(outcomes), axis=0)
    before = look(state, wrong, history)
    after = look(before, canary, stable)
    log_w = np.log(1 / 6)
    log_l = after.memory.log_m - np.logaddexp(before.memory.log_m, log_w)
    for p in (0.05, 0.3, 0.5, 0.8):
        chance = np.array([binom.pmf(i, n_c, p) * binom.pmf(j, n_s, p) for i, j in outcomes])
        assert (np.exp(log_l) * chance[:, None, None]).sum(axis=0).max() <= 1.0 + 1e-9


def test_a_moved_mix_is_found_and_an_equal_one_is_not() -> None:
    rng = np.random.default_rng(1)
    moved, equal = distribution.begin(50, 4), distribution.begin(50, 4)
    for _ in range(60):
        stable = rng.multinomial(950, MIX, 50)
        moved = look(moved, rng.multinomial(50, [0.3, 0.3, 0.3, 0.1], 50), stable)
        equal = look(equal, rng.multinomial(50, MIX, 50), stable)
    assert (memory.log_level(moved.memory) > np.log(100.0)).mean() > 0.95
    assert (memory.log_level(equal.memory) < np.log(100.0)).all()


def test_short_memories_forget_and_the_long_one_does_not() -> None:
    counts = 100.0 * np.ones((1, 4))
    state = look(distribution.begin(1, 4), counts, counts)
    state = look(state, 0.0 * counts, 0.0 * counts, seconds=600.0)
    assert np.allclose(state.stable[0, :, 0], [100.0, 50.0, 100.0 / 16.0])


def test_a_single_bin_says_nothing() -> None:
    state = look(distribution.begin(1, 1), np.array([[50.0]]), np.array([[900.0]]))
    assert state.memory.looks[0, 0] == 0.0
