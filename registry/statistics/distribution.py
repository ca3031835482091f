"""Test (a): is the whole distribution of an observable the same in both arms?

L = Π_k (p̂c,k/p̄_k)^c_k · (p̂s,k/p̄_k)^s_k with p̄ = ρp̂c + (1−ρ)p̂s and estimates from earlier batches. Under
"same distribution", whatever it is, E[L] ≤ 1 (weighted arithmetic and geometric means). It has no tolerance:
between different engines it only shows that they differ; between arms of one engine it freezes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import memory
from registry.statistics.arrays import Bools, Floats, Stateful, floats
from registry.statistics.memory import Memory

_HALF_LIFE_S = floats([np.inf, 600.0, 150.0])
"""Experts: all history, the last ten minutes or so, the last two and a half."""

_SHRINK = floats([50.0, 200.0, 100.0])
"""κ of each expert: how many observations of stable's mix are mixed into canary's."""


@dataclass(frozen=True, slots=True)
class DistributionTest(Stateful):
    """memory: (R, 1, X) evidence of the X experts. canary, stable: (R, X, K) their decayed counts."""

    memory: Memory
    canary: Floats
    stable: Floats


def begin(replicates: int, bins: int) -> DistributionTest:
    """Nothing seen."""
    experts = len(_SHRINK)
    zero = np.zeros((replicates, experts, bins))
    return DistributionTest(memory.begin(replicates, 1, experts), zero, zero)


def look(
    test: DistributionTest, canary: Floats, stable: Floats, seconds: float, phi: Floats, active: Bools
) -> DistributionTest:
    """One batch. canary, stable: (R, S, K) counts; seconds: the span it covers; phi, active: (R,)."""
    bins = stable.shape[-1]
    stable_mix = (test.stable + 0.5) / (test.stable + 0.5).sum(axis=-1, keepdims=True)
    shrink = _SHRINK[:, None]
    canary_mix = (test.canary + shrink * stable_mix) / (test.canary.sum(axis=-1, keepdims=True) + shrink)
    n_c, n_s = canary.sum(axis=-1), stable.sum(axis=-1)
    share = n_c / np.maximum(n_c + n_s, 1.0)
    # (R, S, X, K): the mean mix depends on the stratum's share.
    weight = share[:, :, None, None]
    mean = weight * canary_mix[:, None] + (1.0 - weight) * stable_mix[:, None]
    log_l = (
        canary[:, :, None, :] * np.log(canary_mix[:, None] / mean)
        + stable[:, :, None, :] * np.log(stable_mix[:, None] / mean)
    ).sum(axis=(1, 3))
    present = ((n_c > 0.0) & (n_s > 0.0)).any(axis=1) & active & (bins > 1)
    keep = (0.5 ** (seconds / _HALF_LIFE_S))[:, None]
    return DistributionTest(
        memory=memory.grow(test.memory, log_l[:, None, :] / phi[:, None, None], present[:, None]),
        canary=test.canary * keep + canary.sum(axis=1)[:, None, :],
        stable=test.stable * keep + stable.sum(axis=1)[:, None, :],
    )
