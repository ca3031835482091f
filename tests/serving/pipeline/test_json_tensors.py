import numpy as np
import pytest

from registry.contract.pipeline import ByteWindow, JsonTensors, PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.json_tensors import json_tensor
from serving.pipeline.processing import pre
from serving.runtimes.errors import InputError

SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="mask", dtype=Dtype.BOOL, shape=("batch", "length")),
        TensorSpec(name="scale", dtype=Dtype.FP32, shape=("batch",)),
        TensorSpec(name="text", dtype=Dtype.BYTES, shape=("batch", 1)),
    ),
    outputs=(),
)
GOOD = b'{"ids": [1, 2, 3], "mask": [true, false, true], "scale": 2, "text": ["\xc3\xa4"]}'


@pytest.mark.parametrize("spec", [PipelineSpec(), PipelineSpec(pre=(JsonTensors(),))])
def test_a_raw_input_is_one_row(spec: PipelineSpec) -> None:
    tensors = pre(spec, SIGNATURE)(GOOD)
    assert tensors["ids"].tolist() == [[1, 2, 3]]
    assert tensors["mask"].tolist() == [[True, False, True]]
    assert tensors["scale"].tolist() == [2.0]
    assert tensors["text"].tolist() == [["ä"]]
    assert [tensor.dtype.name for tensor in tensors.values()] == ["int64", "bool", "float32", "object"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ((b"[1, 2, 3]", b"[1, 2]"), "shape of input 'mask'"),
        ((b"[1, 2, 3]", b"[[1, 2, 3]]"), "data of input 'ids'"),
        ((b"[1, 2, 3]", b"[[1], [2, 3]]"), "data of input 'ids'"),
        ((b"[1, 2, 3]", b"[1.5, 2, 3]"), "data of input 'ids'"),
        ((b"[1, 2, 3]", b"[1, null, 3]"), "data of input 'ids'"),
        ((b"[1, 2, 3]", b'["1", "2", "3"]'), "data of input 'ids'"),
        ((b"[true, false, true]", b"[1, 0, 1]"), "data of input 'mask'"),
        ((b": 2,", b": 1e39,"), "data of input 'scale'"),
        ((b": 2,", b": [2],"), "data of input 'scale'"),
        ((b'["\xc3\xa4"]', b"[5]"), "data of input 'text'"),
        ((b'["\xc3\xa4"]', b"[]"), "shape of input 'text'"),
        ((b'"scale"', b'"scales"'), "raw input"),
        ((b'"scale": 2, ', b""), "raw input"),
        ((b"}", b""), "raw input"),
        ((GOOD, b"[]"), "raw input"),
        ((GOOD, b""), "raw input"),
    ],
)
def test_bad_json_is_refused_with_what_to_mend(change: tuple[bytes, bytes], what: str) -> None:
    with pytest.raises(InputError) as caught:
        pre(PipelineSpec(), SIGNATURE)(GOOD.replace(*change))
    assert caught.value.what == what
    assert caught.value.mend


@pytest.mark.parametrize(
    ("dtype", "data", "wanted"),
    [
        (Dtype.UINT8, [0, 255], np.array([0, 255], np.uint8)),
        (Dtype.INT8, [-128, 127], np.array([-128, 127], np.int8)),
        (Dtype.FP16, [1, 2.5], np.array([1, 2.5], np.float16)),
        (Dtype.INT64, [2**63 - 1, -(2**63)], np.array([2**63 - 1, -(2**63)], np.int64)),
        (Dtype.FP32, [], np.empty(0, np.float32)),
    ],
)
def test_numbers_become_the_type(dtype: Dtype, data: list[float], wanted: np.ndarray) -> None:
    got = json_tensor("x", dtype, data)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        (Dtype.UINT8, [256]),
        (Dtype.UINT8, [-1]),
        (Dtype.INT32, [2**31]),
        (Dtype.INT64, [2**63]),
        (Dtype.FP16, [70000]),
        (Dtype.BYTES, ["text", 1]),
        (Dtype.FP32, {"a": 1}),
    ],
)
def test_what_the_type_can_not_hold_is_refused(dtype: Dtype, data: object) -> None:
    with pytest.raises(InputError, match="data of input 'x'"):
        json_tensor("x", dtype, data)


def test_flat_data_takes_the_shape_and_nested_data_must_have_it() -> None:
    flat = json_tensor("x", Dtype.FP32, [1, 2, 3, 4, 5, 6], (2, 3))
    assert flat.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert json_tensor("x", Dtype.FP32, flat.tolist(), (2, 3)).shape == (2, 3)
    with pytest.raises(InputError, match="6 elements"):
        json_tensor("x", Dtype.FP32, flat.tolist(), (3, 2))
    with pytest.raises(InputError, match="4 elements"):
        json_tensor("x", Dtype.FP32, [1, 2, 3], (2, 2))


def test_every_input_is_made_exactly_once() -> None:
    spec = PipelineSpec(pre=(JsonTensors(), ByteWindow(output="ids", head=1, tail=1, block=8, pad=0)))
    two = Signature(
        inputs=(
            TensorSpec(name="ids", dtype=Dtype.INT32, shape=("batch", 2)),
            TensorSpec(name="other", dtype=Dtype.INT32, shape=("batch", 2)),
        ),
        outputs=(),
    )
    with pytest.raises(PipelineMismatch, match="makes ids, other, ids"):
        pre(spec, two)
    with pytest.raises(PipelineMismatch, match="makes ids, but"):
        pre(PipelineSpec(pre=spec.pre[1:]), two)
    both = PipelineSpec(
        pre=(
            ByteWindow(output="ids", head=1, tail=1, block=8, pad=0),
            ByteWindow(output="other", head=2, tail=0, block=8, pad=9),
        )
    )
    made = pre(both, two)(b"abc")
    assert {name: tensor.tolist() for name, tensor in made.items()} == {
        "ids": [[97, 99]],
        "other": [[97, 98]],
    }
