"""Whatever a client sends, reading it ends in tensors or a refusal, never in an error of the arm."""

import json
from contextlib import suppress
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.gateway import oip
from serving.gateway.oip_inputs import InputReader
from serving.gateway.refusals import Refusal
from serving.pipeline.json_tensors import json_tensor
from serving.runtimes.errors import InputError

SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 2)),
        TensorSpec(name="n", dtype=Dtype.INT64, shape=("batch",)),
        TensorSpec(name="t", dtype=Dtype.BYTES, shape=("batch", 1)),
    ),
    outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch",)),),
)
DECODE = oip.Decoder(SIGNATURE)
GOOD: dict[str, Any] = {
    "id": "1",
    "parameters": {"binary_data_output": True},
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2]},
        {"name": "n", "datatype": "INT64", "shape": [1], "data": [3]},
        {"name": "t", "datatype": "BYTES", "shape": [1, 1], "parameters": {"binary_data_size": 7}},
    ],
    "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
}
TAIL = b"\x03\x00\x00\x00abc"
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["x", "n", "t", "y", "FP32", "INT64", "BYTES", "name", "data"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)
    return copy


def test_the_unchanged_request_is_read() -> None:
    head = orjson.dumps(GOOD)
    request = DECODE(head + TAIL, b"%d" % len(head))
    assert (request.rows, request.inputs["t"].tolist(), request.binary) == (1, [[b"abc"]], True)


@given(st.sampled_from(_places(GOOD)), ANY, st.binary(max_size=12) | st.just(TAIL))
def test_no_change_of_it_raises_anything_else(place: tuple[Any, ...], new: object, tail: bytes) -> None:
    head = json.dumps(_with(GOOD, place, new)).encode()
    with suppress(Refusal, InputError):
        DECODE(head + tail, b"%d" % len(head))


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.just("1"),
)


@given(st.sampled_from([Dtype.FP32, Dtype.FP64, Dtype.INT64, Dtype.INT32, Dtype.BOOL]), st.lists(NUMBERS))
def test_the_short_way_for_flat_numbers_is_the_long_way(dtype: Dtype, data: list[Any]) -> None:
    reader = InputReader(TensorSpec(name="x", dtype=dtype, shape=("batch",)))
    entry = {"name": "x", "datatype": dtype.value, "shape": [len(data)], "data": data}
    try:
        expected = json_tensor("x", dtype, data, (len(data),))
    except InputError as error:
        expected = error.got
    try:
        found = reader.read(entry, memoryview(b""), 0)[0]
    except InputError as error:
        found = error.got
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        assert (found.dtype, found.shape, found.tobytes()) == (
            expected.dtype,
            expected.shape,
            expected.tobytes(),
        )
