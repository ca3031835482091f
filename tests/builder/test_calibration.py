"""Ranges depend on what was seen, and on neither chunks nor order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.calibration import MinMax, NotFinite

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
