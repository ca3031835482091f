"""E-values for two independent samples of yes/no events: canary's rate against stable's.

For counts x_c of n_c and x_s of n_s and any bets a, b > 0,

    L = a^x_c · b^x_s · exp(−F),   F = max over the hypothesis of n_c·ln(1 + p(a−1)) + n_s·ln(1 + s(b−1))

has expectation at most 1 under every (p, s) of the hypothesis: it is exact for binomials, whatever the true
rates are, and needs no estimate of them. The edges of the hypotheses used here are straight lines
p = τ·s + δ, along which the exponent is concave in s, so F is in closed form.

The bets only decide how fast evidence grows. They are the odds ratios between the alternative (p1, s1) and
its projection (p0, s0) onto the edge (the growth-rate-optimal bets of Turner, Ly and Grünwald, "Generic
E-variables for exact sequential k-sample tests"). For rare events and δ = 0 they become the conditional
binomial: a = p_r/p_0, b = (1−p_r)/(1−p_0), with p_r = ρr/(ρr+1−ρ).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from registry.statistics.arrays import Floats, floats
from registry.statistics.tolerances import GRID, Margin

_EDGE = 1e-9
_PROJECTION_STEPS = 3
_GRID = floats(GRID)


class Side(StrEnum):
    """Which way a rate must not move."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class _Line:
    """The hypothesis' edge p = tau·s + delta, low ≤ s ≤ high, beside each expected stable rate."""

    tau: Floats
    delta: Floats
    low: Floats
    high: Floats


def log_e(
    n_c: Floats, x_c: Floats, n_s: Floats, x_s: Floats, stable_rate: Floats, margin: Margin, side: Side
) -> Floats:
    """log L of each alternative; shape: the broadcast shape of the counts, then G.

    H0 of `ABOVE`: p ≤ ratio·s where stable_rate lies above add/(ratio − 1), and p ≤ s + add below it: the
    two lines of the tolerance max(ratio·s, s + add), which meet there. H0 of `BELOW`: p ≥ s − add (the
    ratio is not used). Valid for every true s along the chosen line; a canary that is no worse than stable
    is inside both.
    stable_rate: stable's rate as known *before* this batch: it chooses the line and steers the bets.
    Where one arm is empty nothing can be compared: log L = 0.
    """
    n_c, x_c, n_s, x_s, s1 = (v[..., None] for v in np.broadcast_arrays(n_c, x_c, n_s, x_s, stable_rate))
    both = (n_c > 0) & (n_s > 0)
    line = _edge(s1, margin, side)
    a, b = _bets(n_c, n_s, s1, line, side)
    log_l = x_c * np.log(a) + x_s * np.log(b) - _highest(n_c, n_s, a, b, line)
    return np.asarray(np.where(both, log_l, 0.0))


def _edge(s1: Floats, margin: Margin, side: Side) -> _Line:
    one = np.ones_like(s1)
    if side is Side.BELOW:
        return _Line(one, -margin.add * one, margin.add * one, one)
    steep = (margin.ratio - 1.0) * s1 > margin.add
    return _Line(
        tau=np.where(steep, margin.ratio, 1.0),
        delta=np.where(steep, 0.0, margin.add),
        low=0.0 * one,
        high=np.where(steep, 1.0 / margin.ratio, 1.0 - margin.add),
    )


def _bets(n_c: Floats, n_s: Floats, s1: Floats, line: _Line, side: Side) -> tuple[Floats, Floats]:
    """The bets (a, b) of each alternative: odds at the edge beside s1, times (or over) the grid."""
    s1 = np.clip(s1, line.low + _EDGE, line.high - _EDGE)
    edge = np.clip(line.tau * s1 + line.delta, _EDGE, 1.0 - _EDGE)
    odds = edge / (1.0 - edge) * (_GRID if side is Side.ABOVE else 1.0 / _GRID)
    p1 = odds / (1.0 + odds)
    s0 = _project(n_c / np.maximum(n_c + n_s, 1.0), p1, s1, line)
    p0 = np.clip(line.tau * s0 + line.delta, _EDGE, 1.0 - _EDGE)
    return odds * (1.0 - p0) / p0, (s1 / (1.0 - s1)) * (1.0 - s0) / s0


def _project(share: Floats, p1: Floats, s1: Floats, line: _Line) -> Floats:
    """s0 of the point on the edge nearest to (p1, s1) in share-weighted Kullback-Leibler divergence.

    Iterated weighted least squares. Where it has not converged the bets are a little slower, never wrong.
    """
    tau, delta = line.tau, line.delta
    s0 = (share * np.maximum(p1 - delta, 0.0) + (1.0 - share) * s1) / (share * tau + 1.0 - share)
    for _ in range(_PROJECTION_STEPS):
        s0 = np.clip(s0, line.low + _EDGE, line.high - _EDGE)
        p0 = np.clip(tau * s0 + delta, _EDGE, 1.0 - _EDGE)
        weight_c = share * tau / (p0 * (1.0 - p0))
        weight_s = (1.0 - share) / (s0 * (1.0 - s0))
        s0 = (weight_c * (p1 - delta) + weight_s * s1) / (weight_c * tau + weight_s)
    return np.asarray(np.clip(s0, line.low + _EDGE, line.high - _EDGE))


def _highest(n_c: Floats, n_s: Floats, a: Floats, b: Floats, line: _Line) -> Floats:
    """The greatest n_c·ln(1 + p(a−1)) + n_s·ln(1 + s(b−1)) along the edge.

    It is concave in s. Opposite bets balance at one point, and the end next to it is the best where that
    point lies outside; bets that agree are best at the end that they both point to.
    """
    up, down = a - 1.0, b - 1.0
    slope = line.tau * up * down * (n_c + n_s)
    flat = -(n_c * line.tau * up + n_s * down * (1.0 + line.delta * up))
    rising = (up > 0.0) | ((up == 0.0) & (down > 0.0))
    end = np.where(rising, line.high, line.low)
    best = np.divide(flat, slope, out=end, where=slope < 0.0)
    best = np.clip(best, line.low, line.high)
    # Grazing −1 is a bet of everything against an event.
    hit = np.log1p(np.maximum((line.tau * best + line.delta) * up, _EDGE - 1.0))
    return np.asarray(n_c * hit + n_s * np.log1p(np.maximum(best * down, _EDGE - 1.0)))
