"""How well a calibration set covers what an engine will be judged on: distributions side by side. Pure.

Each row becomes a few numbers per input tensor and one per observable of the source's answer. A feature's
`overlap` is the part that both distributions share (1 − total variation) over bins of equal shares of the
validation set. It is flagged when PSI is above `PSI_LIMIT` beyond what so few rows make by chance: PSI of two
samples of one distribution is about χ²(bins − 1) · (1/n + 1/m) (B. Yurdakul, Statistical properties of the
population stability index, 2018).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from registry.contract.engines import CoverageReport, FeatureCoverage
from registry.contract.versions import DatasetRef

Array = npt.NDArray[Any]
Features = Mapping[str, float | str]

BINS = 8
PSI_LIMIT = 0.25
# Quantiles of a normal distribution: 1 of 1,000 features of a set that fits is flagged.
_SIGMAS = 3.1
LEAST_ROWS = 20


def features(tensors: Mapping[str, Array]) -> Iterator[tuple[str, float]]:
    """Of one row's engine inputs, each with a batch axis of 1: level, spread and roughness (how far
    neighbours are apart, as a part of the spread) of numbers; length along axes behind the first."""
    for name, tensor in tensors.items():
        row = tensor[0] if tensor.ndim else tensor
        for axis, size in enumerate(row.shape):
            yield f"{name} length.{axis + 1}", float(size)
        if row.dtype.kind not in "fiub" or not row.size:
            continue
        numbers = row.astype(np.float64)
        finite = np.isfinite(numbers)
        if not finite.all():
            numbers = numbers[finite]
            yield f"{name} missing", float(1 - finite.mean())
        if not numbers.size:
            continue
        spread = float(numbers.std())
        yield f"{name} level", float(numbers.mean())
        yield f"{name} spread", spread
        if numbers.shape == row.shape and row.ndim and row.shape[-1] > 1 and spread > 0:
            steps = np.abs(np.diff(numbers, axis=-1))
            yield f"{name} roughness", float(steps.mean()) / spread


def coverage(
    calibration: Sequence[Features], validation: Sequence[Features], dataset: DatasetRef, against: DatasetRef
) -> CoverageReport:
    """Every feature that varies or differs between the sets."""
    names = dict.fromkeys(name for row in (*validation, *calibration) for name in row)
    found = [_feature(name, calibration, validation) for name in names]
    return CoverageReport(
        dataset=dataset,
        against=against,
        rows=len(calibration),
        against_rows=len(validation),
        features=tuple(one for one in found if one is not None),
    )


def _feature(
    name: str, calibration: Sequence[Features], validation: Sequence[Features]
) -> FeatureCoverage | None:
    ours = [row[name] for row in calibration if name in row]
    theirs = [row[name] for row in validation if name in row]
    if len(ours) < LEAST_ROWS or len(theirs) < LEAST_ROWS:
        return None
    left, right = _counts(ours, theirs)
    if len(left) < 2:
        return None
    overlap = float(np.minimum(left / left.sum(), right / right.sum()).sum())
    psi = _psi(left, right)
    return FeatureCoverage(
        feature=name, overlap=overlap, psi=psi, flagged=_beyond_chance(psi, len(left), len(ours), len(theirs))
    )


def _counts(ours: Sequence[float | str], theirs: Sequence[float | str]) -> tuple[Array, Array]:
    """Rows of both in each bin that has any."""
    if any(isinstance(value, str) for value in (*ours, *theirs)):
        common = [label for label, _ in Counter(map(str, (*ours, *theirs))).most_common(BINS - 1)]
        at = {label: index for index, label in enumerate(common)}
        left, right = (
            np.bincount([at.get(str(value), len(common)) for value in values], minlength=len(common) + 1)
            for values in (ours, theirs)
        )
    else:
        wanted = np.asarray(theirs, np.float64)
        edges = np.unique(np.quantile(wanted, np.arange(1, BINS) / BINS, method="inverted_cdf"))
        left, right = (
            np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
            for values in (np.asarray(ours, np.float64), wanted)
        )
    used = (left + right) > 0
    return left[used], right[used]


def _psi(left: Array, right: Array) -> float:
    """Population stability index, with half a row more in every bin."""
    p, q = (left + 0.5) / (left + 0.5).sum(), (right + 0.5) / (right + 0.5).sum()
    return float(((p - q) * np.log(p / q)).sum())


def _beyond_chance(psi: float, bins: int, ours: int, theirs: int) -> bool:
    h = 1 / ours + 1 / theirs
    noise = (bins - 1) * h + _SIGMAS * math.sqrt(2 * (bins - 1) * h * h + 4 * psi * h)
    return psi - noise > PSI_LIMIT


def sentence(report: CoverageReport) -> str:
    if not report.features:
        return f"{report.rows} rows of {_name(report.dataset)}: too few, or nothing varies, to be compared"
    flagged = report.flagged
    if not flagged:
        lowest = min(report.features, key=lambda one: one.overlap)
        return (
            f"{_name(report.dataset)} covers {_name(report.against)}: lowest overlap {lowest.overlap:.0%} "
            f"({lowest.feature})"
        )
    told = ", ".join(f"{one.feature} {one.overlap:.0%}" for one in flagged[:6])
    more = f" and {len(flagged) - 6} more" if len(flagged) > 6 else ""
    return (
        f"calibration set {_name(report.dataset)} is unlike {_name(report.against)} in {told}{more} "
        "(overlap); their ranges would clip or waste these inputs: calibrate on rows like those to be served"
    )


def _name(ref: DatasetRef) -> str:
    return f"{ref.name}@{ref.version}"
