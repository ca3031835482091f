import numpy as np
import pytest

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.inputs import check_inputs
from serving.runtimes.errors import InputError

SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", "length", 2)),
    ),
    outputs=(),
)


def tensors(rows: int = 3, length: int = 5) -> dict[str, np.ndarray]:
    return {"ids": np.zeros((rows, length), np.int64), "x": np.zeros((rows, length, 2), np.float32)}


def test_counts_the_rows_of_good_inputs() -> None:
    assert check_inputs(SIGNATURE, tensors(rows=7)) == 7
    infinite = tensors()
    infinite["x"][0] = np.inf
    assert check_inputs(SIGNATURE, infinite) == 3


@pytest.mark.parametrize(
    ("change", "what", "got"),
    [
        ({"x": np.zeros((3, 4, 2), np.float32)}, "shape of input 'x'", "[3, 4, 2]"),
        ({"x": np.zeros((2, 5, 2), np.float32)}, "shape of input 'x'", "[2, 5, 2]"),
        ({"x": np.zeros((3, 5, 3), np.float32)}, "shape of input 'x'", "[3, 5, 3]"),
        ({"x": np.zeros((3, 5), np.float32)}, "shape of input 'x'", "[3, 5]"),
        ({"x": np.zeros((3, 5, 2), np.float16)}, "dtype of input 'x'", "FP16"),
        ({"ids": np.zeros((3, 5), np.int32)}, "dtype of input 'ids'", "INT32"),
        ({"extra": np.zeros((3, 5), np.int32)}, "input names", "ids, x, extra"),
        (tensors(rows=0), "shape of input 'ids'", "[0, 5]"),
        (tensors(length=0), "shape of input 'ids'", "[3, 0]"),
    ],
)
def test_says_what_is_wrong_and_how_to_mend_it(change: dict[str, np.ndarray], what: str, got: str) -> None:
    with pytest.raises(InputError) as caught:
        check_inputs(SIGNATURE, {**tensors(), **change})
    assert (caught.value.what, caught.value.got) == (what, got)
    assert caught.value.wanted
    assert caught.value.mend


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.FP32, Dtype.FP64])
def test_nan_is_refused_with_its_row(dtype: Dtype) -> None:
    signature = Signature(inputs=(TensorSpec(name="x", dtype=dtype, shape=("batch", 2)),), outputs=())
    x = np.zeros((4, 2), {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}[dtype])
    x[2, 1] = np.nan
    with pytest.raises(InputError, match="NaN in row 2"):
        check_inputs(signature, {"x": x})


def test_fixed_batch_axes_must_agree_over_inputs() -> None:
    signature = Signature(
        inputs=(
            TensorSpec(name="a", dtype=Dtype.INT64, shape=("rows_a",)),
            TensorSpec(name="b", dtype=Dtype.INT64, shape=("rows_b",)),
        ),
        outputs=(),
    )
    with pytest.raises(InputError, match="a: 2, b: 3"):
        check_inputs(signature, {"a": np.zeros(2, np.int64), "b": np.zeros(3, np.int64)})
