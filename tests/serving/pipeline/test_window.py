"""Windows of a series, position by position."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.pipeline import Window
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.runtimes.errors import InputError
from tests.serving.pipeline.made import before, inputs

FLAT = inputs(("x", Dtype.FP32, ("batch", 3)))


def made(series: Any, signature: Signature = FLAT, **more: Any) -> Any:
    step = Window.model_validate({"output": "x", "length": 3, **more})
    raw = series if isinstance(series, bytes) else json.dumps(series).encode()
    return before(step, signature).prepare(raw).tensors["x"]


def test_the_last_window_ends_with_the_series() -> None:
    assert made([1, 2, 3, 4, 5]).tolist() == [[3, 4, 5]]
    assert made([1, 2, 3, 4, 5], offset=1).tolist() == [[2, 3, 4]]


def test_windows_are_counted_from_the_side_of_training() -> None:
    series = list(range(8))
    assert made(series, stride=2, take="all", align="end").tolist() == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]
    assert made(series, stride=2, take="all", align="start").tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert made(series, stride=2, align="start").tolist() == [[4, 5, 6]]


def test_channels_lie_where_the_model_has_them() -> None:
    series = [[1, 10], [2, 20], [3, 30], [4, 40]]
    last = made(series, inputs(("x", Dtype.FP32, ("batch", 3, 2))), mean=(1, 10), std=(1, 10))
    assert last.tolist() == [[[1, 1], [2, 2], [3, 3]]]
    first = made(series, inputs(("x", Dtype.FP64, ("batch", 2, 3))), channels="first")
    assert first.tolist() == [[[2, 3, 4], [20, 30, 40]]]
    assert first.flags.c_contiguous


def test_short_series_are_filled_at_their_old_end_or_refused() -> None:
    assert made([7, 8], fill=0.5).tolist() == [[0.5, 7, 8]]
    assert made([], fill=0).tolist() == [[0, 0, 0]]
    with pytest.raises(InputError, match="at least 3 steps"):
        made([7, 8])
    with pytest.raises(InputError, match="at least 4 steps"):
        made([7, 8, 9], offset=1)


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=30),
    st.integers(1, 5),
    st.sampled_from(["start", "end"]),
)
def test_every_window_is_a_piece_of_the_series(series: list[int], stride: int, align: str) -> None:
    if len(series) < 3:
        return
    last = len(series) - 3
    starts = [at for at in range(last + 1) if (at if align == "start" else last - at) % stride == 0]
    wanted = [series[at : at + 3] for at in starts]
    assert made(series, stride=stride, align=align, take="all").tolist() == wanted
    assert made(series, stride=stride, align=align).tolist() == wanted[-1:]


@pytest.mark.parametrize(
    ("series", "said"),
    [
        (b"1,2,3", "wanted JSON"),
        ({"a": 1}, "a list of numbers"),
        ([1, None, 3], "a list of numbers"),
        ([1, "2", "x"], "a list of numbers"),
        ([[1, 2], [3], [4]], "a list of numbers"),
        ([[1, 2]] * 3, "wanted 1 numbers per step, got 2"),
        (b"[1, 2, 1e999]", "wanted JSON|a list of numbers"),
    ],
)
def test_what_is_no_series_is_refused(series: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(series)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(InputError, match="at most 2 windows, got 3"):
        made([1, 2, 3, 4, 5], take="all", most=2)


@pytest.mark.parametrize(
    "signature", [inputs(("x", Dtype.FP32, ("batch", 4))), inputs(("x", Dtype.BYTES, ("batch", 3)))]
)
def test_a_signature_that_does_not_fit_is_refused(signature: Signature) -> None:
    with pytest.raises(PipelineMismatch, match="window makes numbers"):
        made([1, 2, 3], signature)


def test_normalising_knows_its_channels() -> None:
    free = inputs(("x", Dtype.FP32, ("batch", 3, "channels")))
    with pytest.raises(InputError, match="wanted 2 channels, got 3"):
        made(np.ones((4, 3)).tolist(), free, mean=(0, 0))
