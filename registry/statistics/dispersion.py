"""How clumped traffic is: φ, by which every log likelihood ratio is divided.

Bursts of identical requests make counts vary more than independent requests would. φ is the mean squared
standardised deviation of stable batches from their own running rates, at least 1. For the K bins of one
distribution it equals the mean Pearson χ²/(K−1). A bin's counts are collected over batches until its
variance reaches one event, so rare events neither dominate nor vanish. φ can't repair stickiness: who is in
an arm stays the same from batch to batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics.arrays import Bools, Floats, Stateful, floats
from registry.statistics.tolerances import (
    GRID,
    KNOWN_BATCHES,
    LEARNING_BATCHES,
    PLAUSIBLE_WEIGHT,
)

_GRID = floats(GRID)
_LONG_CLUMPS = 1.4 * 0.5 / (1.0 / np.log(_GRID) - 1.0 / (_GRID - 1.0)) - 0.4


@dataclass(frozen=True, slots=True)
class Dispersion(Stateful):
    """n, x: (R, I) stable's running totals. held_n, held_x: (R, I) collected but not yet compared.

    squares, compared: (R,) sum and number of squared standardised deviations. batches: (R,) with data.
    """

    n: Floats
    x: Floats
    held_n: Floats
    held_x: Floats
    squares: Floats
    compared: Floats
    batches: Floats

    @property
    def phi(self) -> Floats:
        """(R,) the dispersion, at least 1."""
        return np.maximum(1.0, self.squares / np.maximum(self.compared, 1.0))

    @property
    def learned(self) -> Bools:
        """(R,) whether enough stable batches were seen to tell how stable varies."""
        return np.asarray(self.batches > LEARNING_BATCHES)

    @property
    def known(self) -> Bools:
        """(R,) whether so many stable batches were seen that φ needs no more of them."""
        return np.asarray(self.batches >= KNOWN_BATCHES)

    def cautious(self, plausible: Floats) -> Floats:
        """(R,) φ, drawn towards `plausible` until it is known.

        A handful of batches of bursts can look as calm as independent requests do.
        """
        drawn = drawn_to(plausible, self.squares, self.compared)
        return np.where(self.known, self.phi, np.maximum(self.phi, drawn))

    @property
    def begun(self) -> Bools:
        """(R,) whether stable was seen at all: without it there is no rate to bet beside."""
        return np.asarray(self.batches > 0.0)


def drawn_to(plausible: Floats | float, squares: Floats, compared: Floats) -> Floats:
    """(R,) mean of the squares (of each at least 1 on average) and of a few that were `plausible`."""
    few = PLAUSIBLE_WEIGHT * np.asarray(plausible)
    return np.asarray((few + np.maximum(squares, compared)) / (PLAUSIBLE_WEIGHT + compared))


def divisors(phi: Floats) -> Floats:
    """(R, 1, G) what the log likelihood ratio of each alternative is divided by.

    Dividing by φ alone keeps E[L] ≤ 1 for clumps of one size. Where their length m is geometric, a bet of
    ratio g is worth g^(m/φ) to a clump: more than the bet pays on average, and without limit from g = e² on.
    So the divisor is 1 + (φ − 1)·h. In the limit of long clumps h = ½ / (1/ln g − 1/(g−1)) makes both equal
    (1 for g → 1, 1.7 for g = 16); its excess over 1 is raised by 0.4, which holds from a mean of two on.
    """
    return np.asarray(1.0 + (phi[:, None, None] - 1.0) * _LONG_CLUMPS)


def begin(replicates: int, items: int) -> Dispersion:
    """Nothing seen yet."""
    zero = np.zeros((replicates, items))
    none = np.zeros(replicates)
    return Dispersion(zero, zero, zero, zero, none, none, none)


def learn(state: Dispersion, n: Floats, x: Floats, where: Bools) -> Dispersion:
    """Take in one stable batch. n, x: (R, I) trials and events; where: (R,) replicates that learn from it.

    For the bins of one distribution pass its total as every bin's n.
    """
    n = np.where(where[:, None], n, 0.0)
    x = np.where(where[:, None], x, 0.0)
    first = (state.n == 0.0) & (n > 0.0)
    held_n = np.where(first, 0.0, state.held_n + n)
    held_x = np.where(first, 0.0, state.held_x + x)
    rate = (state.x + 0.5) / (state.n + 1.0)
    variance = held_n * rate * (1.0 - rate)
    ripe = ~first & (variance >= 1.0)
    # The running rate is itself an estimate from n trials: that adds held_n/n to the variance.
    spread = variance * (1.0 + held_n / np.maximum(state.n, 1.0))
    square = (held_x - held_n * rate) ** 2 / np.where(ripe, spread, 1.0)
    return Dispersion(
        n=state.n + np.where(first, n, np.where(ripe, held_n, 0.0)),
        x=state.x + np.where(first, x, np.where(ripe, held_x, 0.0)),
        held_n=np.where(ripe, 0.0, held_n),
        held_x=np.where(ripe, 0.0, held_x),
        squares=state.squares + np.where(ripe, square, 0.0).sum(axis=-1),
        compared=state.compared + ripe.sum(axis=-1),
        batches=state.batches + (n.sum(axis=-1) > 0.0),
    )
