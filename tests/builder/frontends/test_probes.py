"""Rows beside thresholds: they reach their split, and differ there by a known part of the feature's range."""

import numpy as np

from builder.frontends.ensembles import rounded_down
from builder.frontends.probes import FINE, MATERIAL, Branch, probes

LEAF = Branch(-1, 0.0, ())
# x0 <= 4, and at its right x1 <= 0.5.
TREE = Branch(0, 4.0, (LEAF, Branch(1, 0.5, (LEAF, LEAF))))
RANGES = np.array([[0.0, 10.0], [-1.0, 1.0]])


def test_each_split_is_probed_at_both_sides_by_both_shares() -> None:
    found = list(probes([TREE], RANGES, ["a", "b"]))
    assert [(probe.feature, probe.share) for probe in found].count(("a", MATERIAL)) == 2
    assert [(probe.feature, probe.share) for probe in found].count(("b", FINE)) == 2
    sides = sorted(float(probe.row[0]) for probe in found if probe.feature == "a")
    assert np.allclose(sides, [4 - 1e-3, 4 - 1e-6, 4 + 1e-6, 4 + 1e-3], atol=1e-12)


def test_a_row_reaches_the_split_that_it_is_for() -> None:
    assert all(probe.row[0] > 4 for probe in probes([TREE], RANGES, ["a", "b"]) if probe.feature == "b")


def test_only_the_probed_feature_may_lose_by_rounding() -> None:
    for probe in probes([TREE], RANGES + 1e7, ["a", "b"]):
        other = probe.row[1 if probe.feature == "a" else 0]
        assert np.float32(other) == other


def test_features_without_a_range_are_left_alone() -> None:
    assert list(probes([TREE], np.full((2, 2), np.nan), ["a", "b"])) == []


def test_thresholds_are_rounded_so_that_no_fp32_number_changes_sides() -> None:
    generator = np.random.default_rng(0)
    exact = np.concatenate([generator.standard_normal(500) * 10.0**e for e in (-30, -3, 0, 7, 12)])
    kept = rounded_down(exact, np.dtype(np.float32))
    assert kept.dtype == np.float32
    for beside in (kept, np.nextafter(kept, np.float32(np.inf)), np.nextafter(kept, np.float32(-np.inf))):
        assert np.array_equal(beside <= kept, beside.astype(np.float64) <= exact)
    assert np.array_equal(rounded_down(exact, np.dtype(np.float64)), exact)
