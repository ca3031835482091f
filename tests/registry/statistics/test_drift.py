"""PSI with its noise line, and Jensen-Shannon."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from registry.statistics.drift import compare, jensen_shannon, psi

MIX = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def test_jensen_shannon_equals_scipy() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, q = rng.integers(0, 50, 8).astype(float), rng.integers(1, 50, 8).astype(float)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2), abs=1e-12)


def test_psi_equals_its_definition_on_large_counts() -> None:
    p, q = MIX, MIX[::-1]
    expected = float(np.sum((p - q) * np.log(p / q)))
    assert psi(p * 1e9, q * 1e9) == pytest.approx(expected, rel=1e-6)
    assert psi(p * 1e9, q * 1e9) == pytest.approx(psi(q * 1e9, p * 1e9))


def test_small_windows_of_the_same_mix_do_not_alert_where_a_fixed_threshold_would() -> None:
    rng = np.random.default_rng(2)
    even = np.full(40, 1 / 40)
    windows = [rng.multinomial(300, even).astype(float) for _ in range(400)]
    reference = rng.multinomial(1000, even).astype(float)
    found = [compare(window, reference) for window in windows]
    assert np.mean([drift.psi > 0.1 for drift in found]) > 0.5
    assert np.mean([bool(drift.alert) for drift in found]) <= 0.01


def test_a_moved_mix_alerts() -> None:
    rng = np.random.default_rng(3)
    moved = rng.multinomial(2000, MIX[::-1]).astype(float)
    assert compare(moved, rng.multinomial(20000, MIX).astype(float)).alert is True


def test_too_little_data_is_neither_alert_nor_clean() -> None:
    assert compare(MIX[::-1] * 299, MIX * 1e6).alert is None
    assert compare(np.zeros(6), MIX * 1e6).alert is None


@pytest.mark.parametrize(
    ("window", "reference"),
    [(np.ones(3), np.ones(4)), (np.ones(1), np.ones(1)), (np.array([-1.0, 2.0]), np.ones(2))],
)
def test_windows_that_cannot_be_compared_are_refused(window: np.ndarray, reference: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"can.t be compared|negative count"):
        compare(window, reference)
