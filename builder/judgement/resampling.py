"""One-sided 95 % bounds of a paired loss that is no mean of zeros and ones: a bootstrap over rows. Pure.

Both arms keep their rows together, so that what a row is worth cancels out. Weights are Poisson(1)
(N. Chamandy et al., Estimating uncertainty for massive data streams, 2012), the level is widened for few rows
(T. Hesterberg, What teachers should know about the bootstrap, 2015). Rows must be independent of each other.

A bootstrap knows nothing of losses that no row has shown. So one more row takes part, in which the engine
loses what a row can lose; for rare losses the bound is then that of Clopper and Pearson.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Loss = Callable[[Array], Array]
"""Weights [replicates, rows] → what the engine loses [replicates]."""

REPLICATES = 2000
CONFIDENCE = 0.95
_Z = 1.6448536269514722
_CHUNK = 1 << 22
# Poisson(1) by its distribution function, to a part in 65,536: much faster than drawing it.
_WEIGHTS = np.searchsorted(
    np.cumsum([math.exp(-1) / math.factorial(count) for count in range(9)]),
    (np.arange(1 << 16) + 0.5) / (1 << 16),
).astype(np.float64)


def upper(loss: Loss, rows: int) -> float:
    """Upper bound of `loss`, whose last row is the one of the module's text. `rows` counts it too.

    Always the same of the same rows. Raises ValueError without rows.
    """
    if rows < 2:
        raise ValueError("a bound needs at least one row besides the last one")
    generator = np.random.default_rng(0)
    at_once = max(1, _CHUNK // rows)
    found: list[Array] = []
    for first in range(0, REPLICATES, at_once):
        shape = min(at_once, REPLICATES - first), rows
        found.append(loss(_WEIGHTS[generator.integers(0, len(_WEIGHTS), shape, dtype=np.uint16)]))
    return float(np.quantile(np.concatenate(found), _level(rows - 1)))


def seen(loss: Loss, rows: int) -> float:
    """The loss of the rows themselves, without the last one."""
    weights = np.ones((1, rows))
    weights[0, -1] = 0
    return float(loss(weights)[0])


def _level(rows: int) -> float:
    """Φ(√(n/(n−1)) · t) with the quantile t of n − 1 degrees of freedom, to its first order."""
    freedom = max(rows - 1, 1)
    quantile = _Z + (_Z**3 + _Z) / (4 * freedom)
    return 0.5 * math.erfc(-math.sqrt(rows / freedom) * quantile / math.sqrt(2))


def mean_error_loss(source: Array, engine: Array, floor: float) -> Loss:
    """Of the mean of errors [rows], as a part of the source's own, or of `floor` where that is more."""

    def loss(weights: Array) -> Array:
        rows = np.maximum(weights.sum(axis=1), 1)
        before, after = weights @ source / rows, weights @ engine / rows
        return _relative(before, after, floor)

    return loss


def root_mean_square_loss(source: Array, engine: Array, floor: float) -> Loss:
    """As `mean_error_loss`, of the root of the mean square."""

    def loss(weights: Array) -> Array:
        rows = np.maximum(weights.sum(axis=1), 1)
        before, after = np.sqrt(weights @ source**2 / rows), np.sqrt(weights @ engine**2 / rows)
        return _relative(before, after, floor)

    return loss


def _relative(before: Array, after: Array, floor: float) -> Array:
    scale = np.maximum(before, max(floor, np.finfo(np.float64).tiny))
    return np.asarray((after - before) / scale, dtype=np.float64)


def without_zero(number: npt.NDArray[Any], by: npt.NDArray[Any], empty: float) -> Array:
    """number / by, and `empty` where there is nothing to divide by."""
    safe = np.where(by > 0, by, 1.0)
    return np.where(by > 0, number / safe, empty)
