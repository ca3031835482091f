"""E-values for one sample: events against a known limit, and opposite events within pairs."""

from __future__ import annotations

import numpy as np

from registry.statistics.arrays import Floats, floats
from registry.statistics.tolerances import GRID

_EDGE = 1e-9
_GRID = floats(GRID)


def log_e_limit(n: Floats, x: Floats, limit: Floats) -> Floats:
    """H0: rate ≤ limit. The binomial likelihood ratio of each alternative, shape (…, G).

    The alternatives have the limit's odds times the grid.
    """
    n, x, p0 = (v[..., None] for v in np.broadcast_arrays(n, x, limit))
    p0 = np.clip(p0, _EDGE, 1.0 - _EDGE)
    odds = p0 / (1.0 - p0) * _GRID
    p1 = odds / (1.0 + odds)
    return np.asarray(x * np.log(p1 / p0) + (n - x) * np.log((1.0 - p1) / (1.0 - p0)))


def log_e_net(n: Floats, plus: Floats, minus: Floats, slack: Floats, minus_rate: Floats) -> Floats:
    """H0: P(plus) − P(minus) ≤ slack, of n pairs that are each plus, minus or neither. Shape (…, G).

    A sign test with slack: L = a^plus · (2−a)^minus / (1 + slack·(a−1))^n has expectation at most 1 for
    every rate of minus, because the terms in that rate cancel. `minus_rate`, as known before this batch,
    only steers a, which maximises the expected log growth under the alternative (in closed form).
    """
    n, plus, minus, slack, m = (v[..., None] for v in np.broadcast_arrays(n, plus, minus, slack, minus_rate))
    slack = np.clip(slack, _EDGE, 0.5)
    m = np.clip(m, _EDGE, 0.5 - slack / 2)
    odds = (m + slack) / (1.0 - m - slack) * _GRID
    # Plus and minus exclude each other.
    p = np.minimum(odds / (1.0 + odds), 1.0 - m)
    square = slack * (1.0 - p - m)
    linear = -2.0 * p * slack + (p + m) * (1.0 - slack) + 2.0 * slack
    constant = 2.0 * p * (1.0 - slack)
    root = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
    a = np.clip(2.0 * constant / (linear + root), 1.0, 2.0 - _EDGE)
    return np.asarray(plus * np.log(a) + minus * np.log(2.0 - a) - n * np.log1p(slack * (a - 1.0)))
