"""Test (f), which comes first: did the canary get the share that was asked for?

If not, something other than the hash chose the requests, and every comparison of the arms is void.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import memory
from registry.statistics.arrays import Floats, Stateful, floats
from registry.statistics.batch import SplitCounts
from registry.statistics.memory import Memory

_ODDS = floats([1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 16.0])
_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class SplitTest(Stateful):
    """memory: (R, 1, 2·8) evidence of each ratio of odds, upwards then downwards.

    canary, total: (R,) units seen; expected: (R,) units that the requested shares would have given.
    """

    memory: Memory
    canary: Floats
    total: Floats
    expected: Floats


def begin(replicates: int) -> SplitTest:
    """Nothing seen."""
    none = np.zeros(replicates)
    return SplitTest(memory.begin(replicates, 1, 2 * len(_ODDS)), none, none, none)


def look(test: SplitTest, counts: SplitCounts, slack: float) -> SplitTest:
    """One batch. Alternatives are odds ratios, so evidence carries over when the share is widened.

    slack: relative error of the odds that the counting itself may have (0 for requests; distinct keys are
    counted by sketches): H0 is a share whose odds are within a factor 1 + slack of the requested one.
    Strata at share 0 or 1 say nothing.
    """
    share = counts.share
    open_ = np.asarray((share > 0.0) & (share < 1.0) & (counts.total > 0.0))
    odds = np.where(open_, share, 0.5) / (1.0 - np.where(open_, share, 0.5))
    log_l = np.concatenate(
        [_log_l(counts, odds, 1.0 + slack, _ODDS), _log_l(counts, odds, 1.0 / (1.0 + slack), 1.0 / _ODDS)],
        axis=-1,
    )
    log_l = np.where(open_[..., None], log_l, 0.0).sum(axis=1)
    return SplitTest(
        memory=memory.grow(test.memory, log_l[:, None, :], np.any(open_, axis=1, keepdims=True)),
        canary=test.canary + np.where(open_, counts.canary, 0.0).sum(axis=1),
        total=test.total + np.where(open_, counts.total, 0.0).sum(axis=1),
        expected=test.expected + np.where(open_, counts.total * share, 0.0).sum(axis=1),
    )


def _log_l(counts: SplitCounts, odds: Floats, edge: float, ratios: Floats) -> Floats:
    null = (odds * edge)[..., None]
    alternative = null * ratios
    p0 = np.clip(null / (1.0 + null), _EDGE, 1.0 - _EDGE)
    p1 = np.clip(alternative / (1.0 + alternative), _EDGE, 1.0 - _EDGE)
    missed = (counts.total - counts.canary)[..., None]
    return np.asarray(counts.canary[..., None] * np.log(p1 / p0) + missed * np.log((1.0 - p1) / (1.0 - p0)))
