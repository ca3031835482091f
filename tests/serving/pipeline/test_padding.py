"""Rows of different lengths in one run: joined by the contract's rule, and everyone's own back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.pipeline import Padding, PipelineSpec, Tokenise
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.padding import Filler, filler_of

SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="mask", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="extra", dtype=Dtype.FP32, shape=("batch", 2)),
    ),
    outputs=(
        TensorSpec(name="tags", dtype=Dtype.FP32, shape=("batch", "length", 3)),
        TensorSpec(name="pooled", dtype=Dtype.FP32, shape=("batch", 3)),
    ),
)


def filler(side: str = "right", masking: str = "mask", signature: Signature = SIGNATURE) -> Filler | None:
    padding = Padding.model_validate({"masking": masking, "side": side, "id": 7})
    step = Tokenise(file="t", ids="ids", mask="mask", max_length=64, padding=padding)
    return filler_of(PipelineSpec(pre=(step,)), signature)


def request(length: int, rows: int = 1) -> dict[str, np.ndarray]:
    return {
        "ids": np.full((rows, length), length, np.int64),
        "mask": np.ones((rows, length), np.int64),
        "extra": np.full((rows, 2), length, np.float32),
    }


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=6), st.booleans())
def test_everyone_gets_the_own_length_back(sizes: list[tuple[int, int]], left: bool) -> None:
    made = filler("left" if left else "right")
    assert made is not None
    requests = [request(length, rows) for length, rows in sizes]
    joined = made.join(requests)
    longest = max(length for length, _ in sizes)
    assert joined["ids"].shape == joined["mask"].shape == (sum(rows for _, rows in sizes), longest)
    assert joined["extra"].shape[1] == 2
    assert ((joined["ids"] == 7) >= (joined["mask"] == 0)).all()
    assert (joined["mask"].sum(axis=1) == [length for length, rows in sizes for _ in range(rows)]).all()
    tags = np.repeat(joined["ids"][:, :, None], 3, axis=2).astype(np.float32)
    at = 0
    for length, rows in sizes:
        own = {"tags": tags[at : at + rows], "pooled": np.zeros((rows, 3), np.float32)}
        cut = made.cut(own, length)
        assert cut["tags"].shape == (rows, length, 3)
        assert (cut["tags"] == length).all(), "no padding is left in it"
        assert cut["pooled"] is own["pooled"]
        at += rows


def test_short_rows_do_not_pay_for_long_ones() -> None:
    made = filler()
    assert made is not None
    assert made.key(request(3)) == made.key(request(16)) != made.key(request(17)) == made.key(request(32))


@pytest.mark.parametrize(
    ("masking", "signature"),
    [
        ("none", SIGNATURE),
        ("mask", SIGNATURE.model_copy(update={"inputs": tuple(
            one.model_copy(update={"shape": ("batch", 64)}) for one in SIGNATURE.inputs)})),
    ],
)  # fmt: skip
def test_without_a_mask_or_with_a_fixed_length_nothing_is_mixed(masking: str, signature: Signature) -> None:
    assert filler(masking=masking, signature=signature) is None
