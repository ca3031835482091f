"""Memory of evidence: M ← (M + w_t) · L_t, with w_1 = ½ and w_t = 1/(t(t+1)) after it.

The weights sum to one, so M (plus the weight not yet spent) is a non-negative supermartingale that starts
at one whenever E[L_t] ≤ 1: P(ever M ≥ 1/α) ≤ α (Ville). Each w_t is a fresh start at look t, which is how a
fault that begins late is found without forgetting the level of the test. The endless form (w_t = 1) has no
such bound; its mean time to a false alarm is at least 1/α looks (a Shiryaev-Roberts sum).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics.arrays import Bools, Floats, Stateful

_NOTHING = -1e6
"""log of "no evidence yet": finite, because states are stored as JSON."""


@dataclass(frozen=True, slots=True)
class Memory(Stateful):
    """log_m: (R, I, G) log evidence of item I under alternative G. looks: (R, I) looks with data so far."""

    log_m: Floats
    looks: Floats


def begin(replicates: int, items: int, alternatives: int) -> Memory:
    """A memory that has seen nothing."""
    return Memory(
        log_m=np.full((replicates, items, alternatives), _NOTHING),
        looks=np.zeros((replicates, items)),
    )


def grow(memory: Memory, log_l: Floats, present: Bools, endless: bool = False) -> Memory:
    """One look. log_l: (R, I, G) log likelihood ratio of the batch, already divided by the dispersion.

    present: (R, I) whether the batch held data for the item: looks without data spend no weight.
    endless: w_t = 1, for a drift watch without an end.
    """
    t = memory.looks + 1.0
    spent = np.where(t == 1.0, np.log(0.5), -np.log(t) - np.log(t + 1.0))
    log_w = np.zeros_like(t) if endless else spent
    grown = np.logaddexp(memory.log_m, log_w[..., None]) + log_l
    return Memory(
        # A likelihood ratio of zero would otherwise sink without end; the next w_t makes it moot.
        log_m=np.where(present[..., None], np.maximum(grown, _NOTHING), memory.log_m),
        looks=np.where(present, t, memory.looks),
    )


def log_level(memory: Memory) -> Floats:
    """(R, I) log of the evidence of each item: the mean over its alternatives is an e-process too."""
    return log_mean(memory.log_m)


def log_mean(log_values: Floats) -> Floats:
    """log of the mean of exp over the last axis, without overflow."""
    top = log_values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.mean(np.exp(log_values - top), axis=-1)) + top[..., 0])
