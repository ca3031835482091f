import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.pipeline.batch import batch_key, concat, split
from serving.pipeline.errors import IllegalAnswer


def request(rows: int, mark: int, length: int = 2) -> dict[str, np.ndarray]:
    return {"a": np.full((rows, length), mark, np.int64), "b": np.full((rows,), mark, np.float32)}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_everyone_gets_the_own_rows_back(rows: list[int]) -> None:
    batch = concat([request(count, mark) for mark, count in enumerate(rows)])
    assert batch["a"].shape == (sum(rows), 2)
    parts = split({"out": batch["b"]}, rows)
    assert [part["out"].tolist() for part in parts] == [[mark] * count for mark, count in enumerate(rows)]


def test_a_single_request_is_not_copied() -> None:
    one = request(3, 1)
    assert concat([one])["a"] is one["a"]
    assert split({"out": one["b"]}, [3])[0]["out"] is one["b"]


@pytest.mark.parametrize("got", [np.zeros((4, 2)), np.zeros((6, 2)), np.zeros(()), np.zeros((1, 5))])
def test_rows_in_are_rows_out(got: np.ndarray) -> None:
    with pytest.raises(IllegalAnswer, match="for 5 rows of input"):
        split({"good": np.zeros((5, 1)), "bad": got}, [2, 3])


def test_only_equal_shapes_and_types_share_a_batch() -> None:
    key = batch_key(request(1, 0))
    assert key == batch_key(request(9, 1))
    assert key == batch_key(dict(reversed(request(1, 0).items())))
    assert key != batch_key(request(1, 0, length=3))
    other = request(1, 0)
    other["b"] = other["b"].astype(np.float64)
    assert key != batch_key(other)
