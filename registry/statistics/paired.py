"""Test (g): the same input answered by both arms. It removes who the users are, so it decides for sticky
units, and it is the fastest test for all.

Flips are held against a known limit (validation's upper bound plus the tolerance). Failures, tails and the
flow into or out of a label are net: what the canary did alone, less what stable did alone. So noise that hits
both arms alike (a node in trouble, a nondeterministic engine) is never held against the canary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import dispersion, memory, onesample
from registry.statistics.arrays import Bools, Floats, Stateful
from registry.statistics.memory import Memory
from registry.statistics.tolerances import GRID

_PRIOR_PAIRS = 20.0
"""Weight, in pairs, of the first guess at how often stable does it alone (as often as is tolerated)."""


@dataclass(frozen=True, slots=True)
class PairedTest(Stateful):
    """memory: evidence of each item. n, plus, minus: (R, I) pairs; those only canary did, only stable did."""

    memory: Memory
    n: Floats
    plus: Floats
    minus: Floats


def begin(replicates: int, items: int) -> PairedTest:
    """Nothing seen."""
    zero = np.zeros((replicates, items))
    return PairedTest(memory.begin(replicates, items, len(GRID)), zero, zero, zero)


def look_limit(
    test: PairedTest, n: Floats, events: Floats, limit: Floats, phi: Floats, active: Bools
) -> PairedTest:
    """One batch against a limit. n, events: (R, I), summed over strata. limit: (R, I) or broadcastable."""
    return _add(test, n, events, np.zeros_like(events), onesample.log_e_limit(n, events, limit), phi, active)


def look_net(
    test: PairedTest, n: Floats, plus: Floats, minus: Floats, slack: Floats, phi: Floats, active: Bools
) -> PairedTest:
    """One batch of net events. n, plus, minus: (R, I). slack: tolerated P(plus) − P(minus), (R, I)."""
    guess = (test.minus + _PRIOR_PAIRS * slack) / (test.n + _PRIOR_PAIRS)
    return _add(test, n, plus, minus, onesample.log_e_net(n, plus, minus, slack, guess), phi, active)


def _add(
    test: PairedTest, n: Floats, plus: Floats, minus: Floats, log_l: Floats, phi: Floats, active: Bools
) -> PairedTest:
    present = (n > 0.0) & active[:, None]
    return PairedTest(
        memory=memory.grow(test.memory, log_l / dispersion.divisors(phi), present),
        n=test.n + n,
        plus=test.plus + plus,
        minus=test.minus + minus,
    )
