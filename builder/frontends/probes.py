"""Rows beside the thresholds of trees: where rounding a value to FP32 puts it on the other side. Pure.

How far beside is a part of the feature's own range: a ten-thousandth is a difference that matters, a
ten-millionth one that a caller may never send. A feature whose range is wide against its distance from zero
loses neither; one near 1e7 that moves by a few units loses both.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from builder.frontends.request import Probe

MATERIAL, FINE = 1e-4, 1e-7
SHARES = (MATERIAL, FINE)
# Enough to find a feature that flips; trees have thousands of splits on the same few features.
MOST_SPLITS = 500

# Where in its box a row lies. Not in the middle: thresholds are middles themselves.
INSIDE = 0.4142
Row = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Branch:
    """A split `feature <= threshold` with what is at its two sides. Feature −1: a leaf, or no number."""

    feature: int
    threshold: float
    sides: tuple["Branch", ...]


def probes(trees: Iterable[Branch], ranges: Row, names: Sequence[str]) -> Iterator[Probe]:
    """For each split rows that reach it, at both sides of its threshold; their other features are FP32
    numbers, so that rounding moves this one alone. `ranges`: float64[features, 2]."""
    low, high = np.nan_to_num(ranges[:, 0]), np.nan_to_num(ranges[:, 1])
    usable = np.isfinite(ranges).all(axis=1) & (high > low)
    splits = [split for tree in trees for split in _splits(tree, low, high) if usable[split[0].feature]]
    stride = max(1, len(splits) // MOST_SPLITS)
    for branch, above, below in splits[::stride]:
        width = float(high[branch.feature] - low[branch.feature])
        for share in SHARES:
            for value in (branch.threshold - share * width, branch.threshold + share * width):
                if above[branch.feature] < value <= below[branch.feature]:
                    row = (above + INSIDE * (below - above)).astype(np.float32).astype(np.float64)
                    row[branch.feature] = value
                    yield Probe(names[branch.feature], branch.threshold, share, row)


def _splits(tree: Branch, low: Row, high: Row) -> Iterator[tuple[Branch, Row, Row]]:
    """Each numeric split, with the box of rows that reach it."""
    waiting = [(tree, low, high)]
    while waiting:
        branch, above, below = waiting.pop()
        if branch.feature >= 0:
            yield branch, above, below
        for at, side in enumerate(branch.sides):
            inner_low, inner_high = above.copy(), below.copy()
            if branch.feature >= 0:
                if at == 0:
                    inner_high[branch.feature] = min(inner_high[branch.feature], branch.threshold)
                else:
                    inner_low[branch.feature] = max(inner_low[branch.feature], branch.threshold)
            waiting.append((side, inner_low, inner_high))
