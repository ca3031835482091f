"""Proof that the canary is not inferior, anytime-valid, begun afresh at each step.

H0: canary's rate is at or above a bound. The evidence is the running product of likelihood ratios of a
predictable alternative (canary's own rate in this step, drawn towards what is expected) against the bound;
it proves at 20. Without any event it is (1 − bound)^−n: 598 requests for a bound of 0.5 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics.arrays import Bools, Floats, Stateful

_SHRINK = 1000.0
"""Weight of the expected rate, in requests, against canary's own."""

_FLOOR = 0.01
"""The alternative is at least this part of the bound: one event must not destroy the proof for good."""

_CEILING = 0.9
_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Proof(Stateful):
    """log_e: (R, I) evidence of this step. n, x, y: (R, I) trials, canary's events, stable's (pairs only).

    bound: (R, I) what was to be undercut at the last look; growth: expected log evidence per trial then.
    """

    log_e: Floats
    n: Floats
    x: Floats
    y: Floats
    bound: Floats
    growth: Floats


@dataclass(frozen=True, slots=True)
class Scale:
    """phi: (R,) dispersion. active: (R,) whether stable is known well enough to prove anything beside it."""

    phi: Floats
    active: Bools


def begin(replicates: int, items: int) -> Proof:
    """Nothing proven."""
    zero = np.zeros((replicates, items))
    return Proof(zero, zero, zero, zero, zero, zero)


def look(proof: Proof, n: Floats, x: Floats, bound: Floats, expected: Floats, scale: Scale) -> Proof:
    """One batch of canary's trials and events, (R, I). bound, expected: (R, I) rates known before it."""
    p0 = np.clip(bound, _EDGE, 1.0 - _EDGE)
    own = (proof.x + _SHRINK * expected) / (proof.n + _SHRINK)
    p1 = np.clip(own, _FLOOR * p0, _CEILING * p0)
    hit, miss = np.log(p1 / p0), np.log((1.0 - p1) / (1.0 - p0))
    # A canary that fails more often than the bound proves nothing, however long it runs.
    growth = np.where(own < p0, p1 * hit + (1.0 - p1) * miss, 0.0)
    return _add(proof, (n, x, np.zeros_like(x)), x * hit + (n - x) * miss, p0, growth, scale)


def look_net(proof: Proof, n: Floats, plus: Floats, minus: Floats, slack: Floats, scale: Scale) -> Proof:
    """One batch of pairs, (R, I). H0: P(plus) − P(minus) ≥ slack, for sticky units.

    L = (1−λ)^plus · (1+λ)^minus / (1 − λ·slack)^n; λ from the noise seen so far in this step.
    """
    weight = proof.n + _SHRINK
    noise = (proof.x + proof.y + 2.0 * _FLOOR * slack * _SHRINK) / weight
    bet = np.clip(slack / (noise + slack), 0.0, 1.0 - _FLOOR)
    worse, better, each = np.log1p(-bet), np.log1p(bet), -np.log1p(-bet * slack)
    growth = (proof.x / weight) * worse + (proof.y / weight) * better + each
    log_l = plus * worse + minus * better + n * each
    return _add(proof, (n, plus, minus), log_l, slack, np.maximum(growth, 0.0), scale)


def _add(
    proof: Proof,
    counts: tuple[Floats, Floats, Floats],
    log_l: Floats,
    bound: Floats,
    growth: Floats,
    scale: Scale,
) -> Proof:
    use, phi = scale.active[:, None], scale.phi[:, None]
    n, x, y = counts
    return Proof(
        log_e=proof.log_e + np.where(use, log_l / phi, 0.0),
        n=proof.n + np.where(use, n, 0.0),
        x=proof.x + np.where(use, x, 0.0),
        y=proof.y + np.where(use, y, 0.0),
        bound=np.where(use, bound, proof.bound),
        growth=np.where(use, growth / phi, proof.growth),
    )
