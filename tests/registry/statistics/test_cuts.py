"""Quantiles of stable's history on fixed bins."""

from __future__ import annotations

import numpy as np
import pytest

from registry.statistics.cuts import LOW_SCORE, SLOW_RUN, above, below, cut


def test_an_even_history_is_cut_at_its_tenth() -> None:
    history = np.full(100, 7.0)
    assert cut(history, LOW_SCORE) == 10
    assert below(history, 10) / history.sum() == pytest.approx(0.10)
    assert above(history, cut(history, SLOW_RUN)) / history.sum() == pytest.approx(0.01)


def test_a_model_that_is_nearly_always_sure_keeps_a_tail() -> None:
    history = np.zeros(64)
    history[-1], history[10] = 950.0, 50.0
    tail = below(history, cut(history, LOW_SCORE))
    # Neither nothing nor everything: such a tail could not tell the arms apart.
    assert tail == 50.0


def test_tails_of_a_batch_keep_its_leading_axes() -> None:
    counts = np.arange(24.0).reshape(2, 3, 4)
    assert below(counts, 1).shape == (2, 3)
    assert np.array_equal(below(counts, 1) + above(counts, 1), counts.sum(axis=-1))


@pytest.mark.parametrize(
    ("counts", "message"), [(np.zeros(8), "nothing was counted"), (np.ones(1), "two bins")]
)
def test_nothing_to_cut_is_said(counts: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut(counts, LOW_SCORE)
