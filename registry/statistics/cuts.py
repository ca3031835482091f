"""Where stable's earlier quantiles fall on fixed bins: the tails and slow runs that arms are counted by."""

from __future__ import annotations

import numpy as np

from registry.statistics.arrays import Floats, floats

LOW_SCORE = 0.10
OUTER_VALUES = (0.05, 0.95)
SLOW_RUN = 0.99


def cut(counts: Floats, quantile: float) -> int:
    """The bin edge c, 1 ≤ c ≤ K−1, whose share of stable's counts below it is nearest to `quantile`.

    A tail is whatever lies on one side of c, so both arms are cut alike and a coarse bin only makes the tail
    a little larger or smaller than its name says.

    Raises:
        ValueError: when there are fewer than two bins or nothing was counted yet.
    """
    counts = floats(counts)
    if counts.ndim != 1 or counts.size < 2:
        raise ValueError(f"counts of shape {counts.shape} can't be cut: pass one vector of at least two bins")
    total = float(counts.sum())
    if total <= 0.0:
        raise ValueError(
            "nothing was counted yet: let stable serve some traffic before cutting its quantiles"
        )
    below_edge = np.cumsum(counts)[:-1] / total
    return int(np.argmin(np.abs(below_edge - quantile))) + 1


def below(counts: Floats, at: int) -> Floats:
    """Counts below edge `at`, over the last axis."""
    return np.asarray(floats(counts)[..., :at].sum(axis=-1))


def above(counts: Floats, at: int) -> Floats:
    """Counts at or above edge `at`, over the last axis."""
    return np.asarray(floats(counts)[..., at:].sum(axis=-1))
