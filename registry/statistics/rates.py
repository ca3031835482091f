"""Test (b): canary's rate of an event against stable's, by batches, within strata.

Everything that may roll a release back on request-routed traffic is such a rate: errors, time-outs, slow
runs, tails of scores and values, a label's share going up or down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import dispersion, memory, twosample
from registry.statistics.arrays import Bools, Floats, Stateful
from registry.statistics.memory import Memory
from registry.statistics.tolerances import GRID, Margin
from registry.statistics.twosample import Side


@dataclass(frozen=True, slots=True)
class RateTest(Stateful):
    """memory: evidence of each item. stable_n, stable_x: (R, I) stable's totals; canary_n, canary_x alike.

    Stable's totals include what was seen before the release, canary's are of the release.
    """

    memory: Memory
    stable_n: Floats
    stable_x: Floats
    canary_n: Floats
    canary_x: Floats

    @property
    def stable_rate(self) -> Floats:
        """(R, I) stable's rate so far; never exactly 0 or 1, ½ before any data."""
        return (self.stable_x + 0.5) / (self.stable_n + 1.0)


def begin(replicates: int, items: int, pooled: bool = False) -> RateTest:
    """Nothing seen. pooled: the items are strata of one event (batch-size buckets), judged as one."""
    zero = np.zeros((replicates, items))
    return RateTest(memory.begin(replicates, 1 if pooled else items, len(GRID)), zero, zero, zero, zero)


def look(
    test: RateTest,
    canary: tuple[Floats, Floats],
    stable: tuple[Floats, Floats],
    margin: Margin,
    side: Side,
    phi: Floats,
    active: Bools,
) -> RateTest:
    """One batch. canary, stable: (n, x), each (R, S, I). phi: (R,). active: (R,) whether evidence may move.

    Log likelihood ratios are computed per stratum with the rates known before the batch, summed, divided
    by the dispersion's divisors. A batch that is not active still adds to the totals.
    """
    n_c, x_c = canary
    n_s, x_s = stable
    log_l = twosample.log_e(n_c, x_c, n_s, x_s, test.stable_rate[:, None, :], margin, side).sum(axis=1)
    present = np.any((n_c > 0.0) & (n_s > 0.0), axis=1)
    if test.memory.looks.shape[1] != log_l.shape[1]:
        log_l = log_l.sum(axis=1, keepdims=True)
        present = np.any(present, axis=1, keepdims=True)
    return RateTest(
        memory=memory.grow(test.memory, log_l / dispersion.divisors(phi), present & active[:, None]),
        stable_n=test.stable_n + n_s.sum(axis=1),
        stable_x=test.stable_x + x_s.sum(axis=1),
        canary_n=test.canary_n + n_c.sum(axis=1),
        canary_x=test.canary_x + x_c.sum(axis=1),
    )
