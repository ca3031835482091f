"""Ranges depend on what was seen, and on neither chunks nor order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.quantisation.calibration import Histograms, MinMax, NotFinite
from tests.builder import made

numbers = st.floats(-1e6, 1e6, width=32)


@given(values=st.lists(numbers, min_size=1, max_size=40), data=st.data())
def test_neither_chunks_nor_order_matter(values: list[float], data: st.DataObject) -> None:
    whole = MinMax()
    whole.update({"t": np.array(values, np.float32)})
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    first, second = MinMax(), MinMax()
    for turn, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(values)], strict=True)):
        (first if turn % 2 else second).update({"t": np.array(shuffled[start:end], np.float32)})
    first.merge(second)
    assert first.ranges() == whole.ranges() == {"t": (float(min(values)) + 0.0, float(max(values)) + 0.0)}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_range(bad: float) -> None:
    with pytest.raises(NotFinite, match="'t'"):
        MinMax().update({"t": np.array([1, bad, 2], np.float32)})


def test_an_empty_tensor_says_nothing() -> None:
    collector = MinMax()
    collector.update({"t": np.zeros((0, 3), np.float32)})
    assert collector.ranges() == {}


def counted(chunks: list[made.Array], bins: int) -> Histograms:
    """Both passes over the chunks."""
    first = MinMax()
    for chunk in chunks:
        first.update({"t": chunk})
    second = Histograms(first.ranges(), bins)
    for chunk in chunks:
        second.update({"t": chunk})
    return second


@given(values=st.lists(numbers, min_size=1, max_size=60), data=st.data(), bins=st.sampled_from([1, 7, 2048]))
def test_histograms_are_those_of_all_values_at_once(
    values: list[float], data: st.DataObject, bins: int
) -> None:
    shuffled = np.array(data.draw(st.permutations(values)), np.float32)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=5)))
    found = counted(np.split(shuffled, cuts), bins).counts()["t"]
    whole = np.array(values, np.float32).astype(np.float64)
    low, high = whole.min(), whole.max()
    if low == high:
        assert found[0] == len(values)
        return
    # By the definition: the last edge that is not above a value, and the greatest value in the last bin.
    edges = np.linspace(low, high, bins + 1)
    at = np.minimum(np.searchsorted(edges, whole, "right") - 1, bins - 1)
    assert found.tolist() == np.bincount(at, minlength=bins).tolist()


def test_lengths_may_change_from_row_to_row() -> None:
    generator = np.random.default_rng(5)
    rows = [generator.standard_normal((1, length, 8)).astype(np.float32) for length in (3, 11, 1, 0, 7)]
    apart, together = counted(rows, 64), counted([np.concatenate([row.ravel() for row in rows])], 64)
    assert apart.counts()["t"].tolist() == together.counts()["t"].tolist()
    assert apart.counts()["t"].sum() == 22 * 8


def test_histograms_of_parts_add_up() -> None:
    values = np.random.default_rng(6).standard_normal(5000).astype(np.float32)
    ranges = {"t": (float(values.min()), float(values.max()))}
    left, right, whole = Histograms(ranges), Histograms(ranges), Histograms(ranges)
    left.update({"t": values[:123]})
    right.update({"t": values[123:]})
    whole.update({"t": values})
    left.merge(right)
    assert left.counts()["t"].tolist() == whole.counts()["t"].tolist()
