"""Which part of a tensor's range 8 bits should span, by its histogram. Pure.

A narrow range rounds the many values in it finely, and clips the few beyond. Every range is made of the
histogram's own edges, so that what it clips is a whole count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from builder.quantisation.calibration import Counts
from registry.contract.recipes import Calibrator

LEVELS = 256
# Tries are this many bins apart. A divergence over fewer bins than levels is none: there each has its own.
STRIDE = 16
NARROWEST = 16
SMALLEST_SHARE = 1e-12

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """`clipped`: how many of `values` lie outside of [`low`, `high`]."""

    low: float
    high: float
    clipped: int
    values: int


def choose(
    counts: Counts, low: float, high: float, calibrator: Calibrator, percentile: float, symmetric: bool
) -> Chosen:
    """`symmetric`: the range will be widened to be even around zero, as signed 8-bit numbers are used."""
    values = int(counts.sum())
    if low == high or values == 0:
        return Chosen(low, high, 0, values)
    edges = np.linspace(low, high, len(counts) + 1)
    match calibrator:
        case "minmax":
            first, last = 0, len(counts)
        case "percentile":
            first, last = _percentile(counts, percentile)
        case "entropy":
            first, last = min(_windows(edges, LEVELS), key=lambda window: _divergence(counts, *window))
        case "mse":
            first, last = min(
                _windows(edges, NARROWEST), key=lambda window: _noise(counts, edges, window, symmetric)
            )
        case _:
            assert_never(calibrator)
    return Chosen(float(edges[first]), float(edges[last]), values - int(counts[first:last].sum()), values)


def _windows(edges: Floats, narrowest: int) -> Iterator[tuple[int, int]]:
    """Bins whose values are at most some threshold in magnitude: the whole range first, then ever less."""
    bins = len(edges) - 1
    middle = float(np.clip(0.0, edges[0], edges[-1]))
    zero = int(np.searchsorted(edges, middle, "right") - 1)
    yield 0, bins
    for reach in range(max(zero, bins - zero) - STRIDE, narrowest - 1, -STRIDE):
        yield max(0, zero - reach), min(bins, zero + reach)


def _percentile(counts: Counts, percentile: float) -> tuple[int, int]:
    """Each tail may lose half of what is not kept."""
    tail = (100 - percentile) / 200 * int(counts.sum())
    below, above = np.cumsum(counts), np.cumsum(counts[::-1])
    first = int(np.searchsorted(below, tail, "right"))
    last = len(counts) - int(np.searchsorted(above, tail, "right"))
    return (first, last) if first < last else (0, len(counts))


def _divergence(counts: Counts, first: int, last: int) -> float:
    """Kullback–Leibler, from the clipped distribution to what is left of it in 256 levels."""
    inside = counts[first:last].astype(np.float64)
    clipped = inside.copy()
    clipped[0] += counts[:first].sum()
    clipped[-1] += counts[last:].sum()
    level = np.arange(len(inside)) * min(LEVELS, len(inside)) // len(inside)
    filled = inside > 0
    totals = np.bincount(level, inside)
    occupied = np.bincount(level, filled)
    levelled = np.where(filled, totals[level] / np.maximum(occupied[level], 1), 0.0)
    if not levelled.any():
        return np.inf
    wanted, got = clipped / clipped.sum(), levelled / levelled.sum()
    some = wanted > 0
    return float((wanted[some] * np.log(wanted[some] / np.maximum(got[some], SMALLEST_SHARE))).sum())


def _noise(counts: Counts, edges: Floats, window: tuple[int, int], symmetric: bool) -> float:
    """Sum of squared errors: an even rounding error inside, the distance to the range outside."""
    first, last = window
    low, high = min(edges[first], 0.0), max(edges[last], 0.0)
    span = 2 * max(-low, high) if symmetric else high - low
    centres = (edges[:-1] + edges[1:]) / 2
    beyond = np.maximum(edges[first] - centres, 0) + np.maximum(centres - edges[last], 0)
    rounded = counts[first:last].sum() * (span / (LEVELS - 1)) ** 2 / 12
    return float(rounded + (counts * beyond**2).sum())
