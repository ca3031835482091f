"""F1 and average precision of rows of boxes, for any weights of the rows. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.judgement.matching import Marks
from builder.judgement.resampling import Array, without_zero

Score = Callable[[Array], Array]
"""Weights [replicates, rows] → the metric [replicates]."""


def f1(rows: Sequence[Marks]) -> Score:
    """2·right / (2·right + wrong + missed), over all boxes of all rows; 1 where there is none at all."""
    right = np.array([row.right for row in rows], np.float64)
    boxes = np.array([2 * row.right + row.wrong + row.missed for row in rows], np.float64)

    def score(weights: Array) -> Array:
        return without_zero(weights @ (2 * right), weights @ boxes, 1.0)

    return score


def average_precision(rows: Sequence[Marks]) -> Score:
    """The mean over labels of the area under the falling envelope of precision over recall (PASCAL VOC, since
    2010), of the boxes that the contract's threshold lets through. Labels that are nowhere don't count."""
    labels = sorted({label for row in rows for label in row.there})
    columns = [_column(rows, label) for label in labels]

    def score(weights: Array) -> Array:
        if not columns:
            return np.ones(len(weights))
        areas = np.stack([_area(column, weights) for column in columns])
        there = np.stack([weights @ column.there > 0 for column in columns])
        return without_zero((areas * there).sum(axis=0), there.sum(axis=0).astype(np.float64), 1.0)

    return score


@dataclass(frozen=True, slots=True)
class _Column:
    """Of one label. `rows` and `right`: of every hit, surest first; `there`: boxes there, per row."""

    rows: npt.NDArray[np.int64]
    right: npt.NDArray[np.bool_]
    there: Array


def _column(rows: Sequence[Marks], label: str) -> _Column:
    hits: list[tuple[float, int, bool]] = [
        (-hit.score, at, hit.right) for at, row in enumerate(rows) for hit in row.hits if hit.label == label
    ]
    hits.sort(key=lambda hit: hit[0])
    return _Column(
        rows=np.array([at for _, at, _ in hits], np.int64),
        right=np.array([right for _, _, right in hits], np.bool_),
        there=np.array([row.there.count(label) for row in rows], np.float64),
    )


def _area(column: _Column, weights: Array) -> Array:
    of_hits: npt.NDArray[Any] = weights[:, column.rows]
    if not of_hits.size:
        return np.zeros(len(weights))
    right = of_hits * column.right
    precision = without_zero(np.cumsum(right, axis=1), np.cumsum(of_hits, axis=1), 0.0)
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    return without_zero((right * envelope).sum(axis=1), weights @ column.there, 0.0)
