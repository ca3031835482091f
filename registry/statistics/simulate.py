"""Simulated traffic in the shape of the counters, for tests and benches: randomness comes in as a Generator.

Every replicate is an independent deployment. Requests arrive as a Poisson stream of bursts; a burst of m
identical requests has one outcome and goes to one arm as a whole (one routing unit, as the split check counts
them), which is what makes counts clumped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from registry.statistics.arrays import Floats, floats
from registry.statistics.batch import (
    ArmCounts,
    Batch,
    Layout,
    Mix,
    MixKind,
    MixPairs,
    PairCounts,
    SplitCounts,
    empty_pairs,
    stable_only,
)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArmModel:
    """How one arm answers. Rates are fractions; mix sums to one.

    error, slow, low: rates of failed requests, slow runs, low scores.
    """

    error: float = 0.005
    slow: float = 0.01
    low: float = 0.10
    mix: tuple[float, ...] = (0.40, 0.25, 0.15, 0.10, 0.06, 0.04)


@dataclass(frozen=True, slots=True)
class PairModel:
    """What differs on the same input. failed, low: canary alone (stable alone fails and is low at the
    `*_noise` rates). flips: flipped labels, drawn from `flow` (from, to) or spread evenly without it.
    """

    failed: float = 0.0
    failed_noise: float = 0.0
    low: float = 0.004
    low_noise: float = 0.004
    flips: float = 0.008
    flow: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """rate: requests/s. share: canary's. mirror: part of the canary's requests answered by both.

    burst: mean burst length (geometric); 1 is none. shift: odds of the canary's share over those asked for.
    """

    stable: ArmModel = ArmModel()
    canary: ArmModel = ArmModel()
    pairs: PairModel = PairModel()
    rate: float = 100.0
    share: float = 0.05
    mirror: float = 1.0
    seconds: float = 10.0
    burst: float = 1.0
    shift: float = 1.0


def layout(traffic: Traffic) -> Layout:
    """The layout of simulated counters: one error kind, one batch-size bucket, a low tail, a class mix."""
    labels = tuple(f"c{i}" for i in range(len(traffic.stable.mix)))
    return Layout(
        error_kinds=("engine_error",),
        size_buckets=("1",),
        tails=("score low",),
        mixes=(Mix("label", MixKind.CLASS, labels),),
    )


def batch(traffic: Traffic, replicates: int, rng: np.random.Generator) -> Batch:
    """Counters of one batch during a release."""
    odds = traffic.share / (1.0 - traffic.share) * traffic.shift
    true_share = odds / (1.0 + odds)
    mean = traffic.rate * traffic.seconds
    units_c = _bursts(mean * true_share, traffic.burst, replicates, rng)
    units_s = _bursts(mean * (1.0 - true_share), traffic.burst, replicates, rng)
    return Batch(
        layout=layout(traffic),
        seconds=traffic.seconds,
        canary=_arm(traffic.canary, units_c, traffic.burst, rng),
        stable=_arm(traffic.stable, units_s, traffic.burst, rng),
        pairs=_pairs(traffic, units_c, rng),
        split=SplitCounts(
            share=np.full((replicates, 1), traffic.share),
            canary=floats(units_c),
            total=floats(units_c + units_s),
        ),
    )


def before(traffic: Traffic, replicates: int, rng: np.random.Generator) -> Batch:
    """Counters of one batch before the release: stable alone."""
    units = _bursts(traffic.rate * traffic.seconds, traffic.burst, replicates, rng)
    stable = _arm(traffic.stable, units, traffic.burst, rng)
    return stable_only(layout(traffic), traffic.seconds, stable)


def _bursts(requests: float, burst: float, replicates: int, rng: np.random.Generator) -> Ints:
    return rng.poisson(requests / burst, (replicates, 1))


def _arm(model: ArmModel, bursts: Ints, burst: float, rng: np.random.Generator) -> ArmCounts:
    mix = _lengths(rng.multinomial(bursts, floats(model.mix)), burst, rng)
    n = mix.sum(axis=-1)
    failed, slow, low = (
        np.minimum(_lengths(rng.binomial(bursts, rate), burst, rng), n)
        for rate in (model.error, model.slow, model.low)
    )
    return ArmCounts(
        n=n,
        errors=failed[..., None],
        timed=n[..., None],
        slow=slow[..., None],
        observed=n[..., None],
        tails=low[..., None],
        mixes=(mix,),
    )


def _lengths(bursts: Ints, burst: float, rng: np.random.Generator) -> Floats:
    """Total length of each number of bursts: each has at least one request, the rest is geometric."""
    if burst <= 1.0:
        return floats(bursts)
    more = rng.negative_binomial(np.maximum(bursts, 1), 1.0 / burst)
    return floats(np.where(bursts > 0, bursts + more, 0))


def _pairs(traffic: Traffic, bursts: Ints, rng: np.random.Generator) -> PairCounts:
    if traffic.mirror == 0.0:
        return empty_pairs(layout(traffic), *bursts.shape)
    model, burst = traffic.pairs, traffic.burst
    units = rng.binomial(bursts, traffic.mirror)
    failed, stable_failed, both = _three(units, model.failed, model.failed_noise, rng)
    long_failed, long_stable, compared = (
        _lengths(part, burst, rng) for part in (failed, stable_failed, both)
    )
    low, stable_low, _ = _three(both, model.low, model.low_noise, rng)
    long_low = np.minimum(_lengths(low, burst, rng), compared)
    long_stable_low = np.minimum(_lengths(stable_low, burst, rng), compared - long_low)
    flips = np.minimum(_lengths(rng.binomial(both, model.flips), burst, rng), compared).astype(np.int64)
    labels = len(traffic.stable.mix)
    even = np.full(labels, 1.0 / labels)
    source, target = (even, even) if model.flow is None else (np.eye(labels)[at] for at in model.flow)
    inflow, outflow = rng.multinomial(flips, target), rng.multinomial(flips, source)
    return PairCounts(
        n=long_failed + long_stable + compared,
        canary_failed=long_failed,
        stable_failed=long_stable,
        compared=compared[..., None],
        canary_tail=long_low[..., None],
        stable_tail=long_stable_low[..., None],
        mixes=(MixPairs(compared, floats(flips), floats(inflow), floats(outflow)),),
    )


def _three(n: Ints, plus: float, minus: float, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    parts = rng.multinomial(n, [plus, minus, 1.0 - plus - minus])
    return parts[..., 0], parts[..., 1], parts[..., 2]
