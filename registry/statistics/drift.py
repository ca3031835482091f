"""How far a distribution is from another: PSI with a noise-corrected alert line, and Jensen-Shannon."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from registry.statistics.arrays import Floats, floats

ALERT_AT = 0.1
MIN_COUNT = 300
_SIGMAS = 3.1
_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True)
class Drift:
    """Distance of a window from a reference. excess: PSI beyond what noise explains, compared with `line`.

    alert is None with fewer than 300 observations on a side: not enough data is neither pass nor fail.
    """

    psi: float
    js: float
    excess: float
    line: float
    n: int
    m: int
    alert: bool | None


def psi(window: Floats, reference: Floats) -> float:
    """Population stability index Σ (p − q)·ln(p/q) of two count vectors over the same bins.

    Half an observation is added to every bin, so that an empty one costs what it is worth.
    """
    p, q = _shares(window), _shares(reference)
    return float(np.sum((p - q) * np.log(p / q)))


def jensen_shannon(window: Floats, reference: Floats) -> float:
    """Jensen-Shannon distance in base 2 (0 the same, 1 disjoint) of two count vectors."""
    p, q = (v / max(float(v.sum()), 1.0) for v in (floats(window), floats(reference)))
    mean = 0.5 * (p + q)
    return math.sqrt(max(0.0, 0.5 * _divergence(p, mean) + 0.5 * _divergence(q, mean)))


def compare(window: Floats, reference: Floats) -> Drift:
    """Distances and alert of `window` against `reference`: counts over the same B bins.

    Two samples of one distribution have E[PSI] = (B−1)·h with h = 1/n + 1/m, variance 2(B−1)h² + 4·PSI·h.

    Raises:
        ValueError: when the bins differ or a count is negative.
    """
    window, reference = floats(window), floats(reference)
    if window.shape != reference.shape or window.ndim != 1 or window.size < 2:
        raise ValueError(
            f"windows of {window.shape} and {reference.shape} bins can't be compared: count both on the same "
            "edges, with at least two bins"
        )
    if bool(np.any(window < 0)) or bool(np.any(reference < 0)):
        raise ValueError("a window holds a negative count: take deltas within one incarnation")
    n, m = float(window.sum()), float(reference.sum())
    value = psi(window, reference)
    h = 1.0 / max(n, 1.0) + 1.0 / max(m, 1.0)
    free = window.size - 1
    excess = value - free * h - _SIGMAS * math.sqrt(2.0 * free * h * h + 4.0 * value * h)
    enough = min(n, m) >= MIN_COUNT
    return Drift(
        psi=value,
        js=jensen_shannon(window, reference),
        excess=excess,
        line=ALERT_AT,
        n=int(n),
        m=int(m),
        alert=excess > ALERT_AT if enough else None,
    )


def _shares(counts: Floats) -> Floats:
    smooth = floats(counts) + _SMOOTHING
    return np.asarray(smooth / smooth.sum())


def _divergence(p: Floats, q: Floats) -> float:
    some = p > 0.0
    return float(np.sum(p[some] * np.log2(p[some] / q[some])))
