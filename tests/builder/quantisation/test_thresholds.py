"""Which part of a range 8 bits span: by hand, by brute force, and never by the order of the values."""

import numpy as np
import pytest

from builder.quantisation.calibration import BINS, Histograms
from builder.quantisation.thresholds import LEVELS, Chosen, choose
from builder.search.rules import CALIBRATORS
from registry.contract.recipes import Calibrator
from tests.builder import made

GENERATOR = np.random.default_rng(21)


def chosen(
    values: made.Array,
    calibrator: Calibrator,
    percentile: float = 99.99,
    *,
    symmetric: bool = False,
    bins: int = BINS,
) -> Chosen:
    low, high = float(values.min()), float(values.max())
    histograms = Histograms({"t": (low, high)}, bins)
    histograms.update({"t": values})
    return choose(histograms.counts()["t"], low, high, calibrator, percentile, symmetric)


def squared_error(values: made.Array, found: Chosen) -> float:
    """Of real rounding to 256 levels."""
    low, high = min(found.low, 0.0), max(found.high, 0.0)
    scale = (high - low) / (LEVELS - 1)
    levels = np.clip(np.rint((values - low) / scale), 0, LEVELS - 1)
    return float(((levels * scale + low - values) ** 2).sum())


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_what_is_clipped_is_counted(calibrator: Calibrator) -> None:
    values = np.concatenate([GENERATOR.standard_normal(20_000), [40.0, -35.0]])
    found = chosen(values, calibrator)
    assert found.values == len(values)
    # A value on the upper edge of a bin lies in the next one; there is none here.
    assert found.clipped == int(((values < found.low) | (values > found.high)).sum())
    assert (found.clipped == 0) == (calibrator == "minmax")


@pytest.mark.parametrize("calibrator", ["percentile", "entropy"])
def test_an_outlier_does_not_stretch_the_range(calibrator: Calibrator) -> None:
    values = np.concatenate([GENERATOR.standard_normal(20_000), [60.0]])
    found, whole = chosen(values, calibrator), chosen(values, "minmax")
    assert whole.high == 60.0
    assert 2.5 < found.high < 20
    body = np.abs(values) < 3
    assert squared_error(values[body], found) < squared_error(values[body], whole) / 4


def test_mse_is_the_best_of_all_symmetric_cuts_by_real_rounding() -> None:
    values = np.concatenate([GENERATOR.laplace(size=50_000), [25.0]])
    found = chosen(values, "mse")
    best = min(
        squared_error(values, Chosen(max(values.min(), -cut), min(values.max(), cut), 0, 0))
        for cut in np.linspace(1, 25, 200)
    )
    assert squared_error(values, found) <= 1.05 * best


def test_percentile_takes_from_each_tail_at_most_its_half() -> None:
    values = GENERATOR.standard_normal(100_000)
    found = chosen(values, "percentile", 99.0)
    assert 0.003 < (values < found.low).mean() <= 0.005
    assert 0.003 < (values > found.high).mean() <= 0.005


def test_entropy_over_as_many_bins_as_levels_is_minmax_so_there_are_more() -> None:
    """With a bin for each level nothing is lost by them, and every cut looks worse than none."""
    values = np.concatenate([GENERATOR.standard_normal(20_000), [60.0]])
    assert chosen(values, "entropy", bins=128).high == 60.0
    assert chosen(values, "entropy").high < 20


def test_a_range_of_positive_numbers_is_cut_at_its_top_alone() -> None:
    values = np.concatenate([np.abs(GENERATOR.laplace(size=90_000)), [25.0, 0.0]])
    for calibrator in ("mse", "entropy"):
        found = chosen(values, calibrator)
        assert found.low == 0.0
        assert found.high < 24


def test_symmetric_numbers_of_one_sign_have_half_of_the_levels_and_so_are_cut_deeper() -> None:
    values = np.abs(GENERATOR.laplace(size=90_000))
    assert chosen(values, "mse", symmetric=True).high < chosen(values, "mse").high


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_a_constant_is_its_own_range(calibrator: Calibrator) -> None:
    assert chosen(np.full(9, 2.5), calibrator) == Chosen(2.5, 2.5, 0, 9)
