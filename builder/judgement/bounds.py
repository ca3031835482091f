"""One-sided 95 % bounds that the validation gate accepts by. Pure; numbers in, numbers out.

The builder may import of the registry its contract and client only, so these two live here.
"""

import math

import numpy as np

CONFIDENCE = 0.95
_Z = 1.6448536269514722
_HALVINGS = 60


def tango_upper(gained: int, lost: int, rows: int) -> float:
    """Upper bound of the loss p_source − p_engine over paired rows.

    `gained` rows are right in the engine only, `lost` in the source only. Score interval of T. Tango,
    Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17 (1998), one-sided. Raises ValueError on impossible counts.
    """
    _check(rows, gained, lost)
    low, high = (lost - gained) / rows, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _tango_score(middle, gained, lost, rows) > -_Z:
            low = middle
        else:
            high = middle
    return high


def _tango_score(loss: float, gained: int, lost: int, rows: int) -> float:
    """The score statistic at a supposed loss; falls as the loss grows."""
    linear = -lost - gained + (2 * rows - lost + gained) * loss
    constant = -gained * loss * (1 - loss)
    root = math.sqrt(max(linear * linear - 8 * rows * constant, 0.0))
    nuisance = max((root - linear) / (4 * rows), 0.0)
    variance = rows * (2 * nuisance + loss * (1 - loss))
    difference = lost - gained - rows * loss
    if variance <= 0:
        return 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference / math.sqrt(variance)


def clopper_pearson_upper(events: int, rows: int) -> float:
    """Upper bound of a rate of which `events` of `rows` were seen (C. Clopper, E. Pearson, 1934)."""
    _check(rows, events)
    if events == rows:
        return 1.0
    low, high = events / rows, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _binomial_at_most(events, rows, middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _binomial_at_most(events: int, rows: int, rate: float) -> float:
    """P(X ≤ events) for X ~ Binomial(rows, rate)."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return 0.0
    counts = np.arange(1, events + 1, dtype=np.float64)
    steps = np.log((rows - counts + 1) / counts) + math.log(rate) - math.log1p(-rate)
    logs = rows * math.log1p(-rate) + np.concatenate(([0.0], np.cumsum(steps)))
    peak = float(logs.max())
    return min(1.0, math.exp(peak) * float(np.exp(logs - peak).sum()))


def rows_for_tango(limit: float) -> int:
    """Fewest rows with which a loss bound can be at most `limit`: those of an engine without a difference."""
    return math.ceil(_Z * _Z * (1 - limit) / limit - 1e-9)


def rows_for_clopper_pearson(limit: float) -> int:
    """Fewest rows with which a flip bound can be at most `limit`: those without a single flip."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-limit) - 1e-9)


def _check(rows: int, *counts: int) -> None:
    if rows < 1 or min(counts) < 0 or sum(counts) > rows:
        raise ValueError(f"counts {counts} are not possible among {rows} rows")
