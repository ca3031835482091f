"""Dispersion: 1 for independent requests, the clump size for clumped ones."""

from __future__ import annotations

import numpy as np
import pytest

from registry.statistics import dispersion
from registry.statistics.arrays import Floats, floats
from registry.statistics.dispersion import Dispersion
from registry.statistics.tolerances import GRID, KNOWN_BATCHES, LEARNING_BATCHES

MIX = np.array([0.5, 0.3, 0.15, 0.05])
R = 200


def learned(batches: list[Floats], total: bool = True) -> Dispersion:
    state = dispersion.begin(*batches[0].shape)
    for x in batches:
        n = np.broadcast_to(x.sum(axis=-1, keepdims=True), x.shape) if total else np.full(x.shape, 1000.0)
        state = dispersion.learn(state, n, x, np.ones(x.shape[0], dtype=bool))
    return state


def test_independent_requests_have_dispersion_one() -> None:
    rng = np.random.default_rng(1)
    state = learned([rng.multinomial(1000, MIX, R).astype(float) for _ in range(100)])
    raw = state.squares / state.compared
    assert raw.mean() == pytest.approx(1.0, abs=0.03)
    assert state.phi.mean() < 1.06


def test_clumps_of_five_have_dispersion_five() -> None:
    rng = np.random.default_rng(2)
    state = learned([floats(5.0 * rng.multinomial(200, MIX, R)) for _ in range(100)])
    assert state.phi.mean() == pytest.approx(5.0, rel=0.05)


def test_it_equals_pearson_beside_a_long_history() -> None:
    rng = np.random.default_rng(3)
    mix = np.full(4, 0.25)
    batch = rng.multinomial(400, mix, 1).astype(float)
    state = learned([1e9 * mix[None, :], batch])
    pearson = ((batch - 400 * mix) ** 2 / (400 * mix)).sum() / 3
    assert state.squares[0] / state.compared[0] == pytest.approx(pearson, rel=1e-4)


def test_rare_events_are_collected_until_they_can_be_compared() -> None:
    rng = np.random.default_rng(4)
    rare = learned([rng.binomial(1000, 2e-4, (R, 1)).astype(float) for _ in range(300)], total=False)
    assert 0.0 < rare.compared.mean() < 150.0
    assert (rare.squares / rare.compared).mean() == pytest.approx(1.0, abs=0.1)
    clumped = learned([floats(20.0 * rng.binomial(50, 2e-4, (R, 1))) for _ in range(300)], total=False)
    assert np.median(clumped.phi) > 8.0


def test_it_counts_as_learned_only_after_enough_batches() -> None:
    batch = 1000.0 * MIX[None, :]
    assert not learned([batch] * LEARNING_BATCHES).learned[0]
    assert learned([batch] * (LEARNING_BATCHES + 1)).learned[0]
    empty = learned([batch] * 3 + [0.0 * batch] * 10)
    assert not empty.learned[0]


def test_it_is_drawn_towards_what_is_plausible_until_it_is_known() -> None:
    rng = np.random.default_rng(5)
    batches = [rng.multinomial(1000, MIX, R).astype(float) for _ in range(KNOWN_BATCHES)]
    plausible = np.full(R, 10.0)
    drawn = [learned(batches[:many]).cautious(plausible).mean() for many in (1, 6, 20, KNOWN_BATCHES - 1)]
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[0] == 10.0
    assert drawn[-1] == pytest.approx((6.0 * 10.0 + 58.0 * 4.0) / (6.0 + 58.0 * 4.0), rel=0.1)
    known = learned(batches)
    assert known.cautious(plausible).tolist() == known.phi.tolist()


def test_what_was_measured_is_never_drawn_down() -> None:
    rng = np.random.default_rng(6)
    state = learned([floats(20.0 * rng.multinomial(50, MIX, R)) for _ in range(10)])
    assert bool(np.all(state.cautious(np.ones(R)) >= state.phi))


def test_only_the_replicates_asked_for_learn() -> None:
    batch = np.repeat(1000.0 * MIX[None, :], 2, axis=0)
    n = np.full(batch.shape, 1000.0)
    state = dispersion.learn(dispersion.begin(2, 4), n, batch, np.array([True, False]))
    assert state.batches.tolist() == [1.0, 0.0]
    assert state.x[1].sum() == 0.0


def test_long_clumps_weigh_more_on_bold_bets() -> None:
    bold = dispersion.divisors(np.array([1.0, 9.0]))
    assert bold.shape == (2, 1, len(GRID))
    assert bold[0] == pytest.approx(1.0)
    assert bool(np.all(np.diff(bold[1, 0]) > 0))
    assert 9.0 <= bold[1, 0, 0] < bold[1, 0, -1] < 19.0


@pytest.mark.parametrize("mean_length", [2.0, 3.0, 6.0, 20.0, 100.0])
def test_divided_bets_pay_at_most_one_under_clumps_of_geometric_length(mean_length: float) -> None:
    """E of ratio^(m/divisor), m geometric, against what the bet pays per clump: both in closed form."""
    phi = 2.0 * mean_length - 1.0
    divisors = dispersion.divisors(np.array([phi]))[0, 0]
    for ratio, divisor in zip(GRID, divisors, strict=True):
        step = ratio ** (1.0 / divisor)
        end = 1.0 / mean_length
        assert (1.0 - end) * step < 1.0, "the mean is infinite"
        gained = end * step / (1.0 - (1.0 - end) * step) - 1.0
        paid = mean_length * (ratio - 1.0) / divisor
        assert gained <= paid
