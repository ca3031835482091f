"""Open Inference Protocol v2 over HTTP: request bodies → tensors, tensors → response bodies.

Both JSON data and the binary tensor extension (`Inference-Header-Content-Length`: so many bytes of JSON, then
the tensors' bytes in the order of the inputs that declare `binary_data_size`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.gateway.exchange import JSON, Response
from serving.gateway.refusals import Refusal
from serving.pipeline.inputs import check_inputs
from serving.pipeline.json_tensors import json_tensor
from serving.runtimes.dtypes import dtype_name, numpy_dtype, pack_bytes, unpack_bytes
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.runtimes.tensors import describe

HEADER_LENGTH = b"inference-header-content-length"
BINARY = b"application/octet-stream"
LONGEST_NUMBER = 18
# What any tensor may hold: far more than a body of the longest size, far less than what overflows.
MOST_ELEMENTS = 2**40

_PLAIN: dict[Dtype, frozenset[type]] = {
    Dtype.FP64: frozenset({float, int}),
    Dtype.FP32: frozenset({float, int}),
    Dtype.INT64: frozenset({int}),
    Dtype.INT32: frozenset({int}),
}


@dataclass(slots=True)
class OutputWish:
    name: str
    binary: bool


@dataclass(slots=True)
class InferRequest:
    """`outputs` None: all of them, each in binary form if `binary`."""

    id: str | None
    inputs: dict[str, Array]
    rows: int
    outputs: tuple[OutputWish, ...] | None
    binary: bool


def decode(body: bytes, header_length: bytes | None, signature: Signature) -> InferRequest:
    """Reads and checks a whole request. Raises Refusal (400: not this protocol), InputError (422)."""
    document, tail = _parts(body, header_length)
    raw_inputs = document.get("inputs")
    if not isinstance(raw_inputs, list) or not all(isinstance(one, dict) for one in raw_inputs):
        raise Refusal(
            400,
            "'inputs' is not a list of tensors",
            'send {"inputs": [{"name", "shape", "datatype", "data"}]}',
        )
    inputs = _inputs(raw_inputs, tail, signature)
    parameters = _parameters(document)
    given_id = document.get("id")
    return InferRequest(
        id=given_id if isinstance(given_id, str) else None,
        inputs=inputs,
        rows=_rows(inputs, tail, signature),
        outputs=_wishes(document.get("outputs"), parameters, signature),
        binary=parameters.get("binary_data_output") is True,
    )


def encode(
    request: InferRequest, outputs: Mapping[str, Array], model: str, version: str, request_id: str
) -> Response:
    """Outputs in the order of the model, or as they were asked for."""
    wishes = request.outputs
    if wishes is None:
        wishes = tuple(OutputWish(name, request.binary) for name in outputs)
    tensors: list[dict[str, object]] = []
    tails: list[bytes] = []
    for wish in wishes:
        array = outputs[wish.name]
        dtype = _dtype_of(array)
        tensor: dict[str, object] = {"name": wish.name, "datatype": dtype.value, "shape": array.shape}
        if wish.binary:
            data = pack_bytes(array) if dtype is Dtype.BYTES else array.tobytes()
            tensor["parameters"] = {"binary_data_size": len(data)}
            tails.append(data)
        else:
            tensor["data"] = _json_data(array, dtype)
        tensors.append(tensor)
    head = orjson.dumps(
        {"model_name": model, "model_version": version, "id": request.id or request_id, "outputs": tensors},
        option=orjson.OPT_SERIALIZE_NUMPY,
    )
    if not tails:
        return Response(200, head, JSON)
    size = (b"inference-header-content-length", b"%d" % len(head))
    return Response(200, b"".join([head, *tails]), BINARY, [size])


def _parts(body: bytes, header_length: bytes | None) -> tuple[dict[str, Any], memoryview]:
    end = len(body)
    if header_length is not None:
        # Its length is looked at first: Python refuses to read numbers of thousands of digits.
        readable = header_length.isdigit() and len(header_length) <= LONGEST_NUMBER
        if not readable or int(header_length) > len(body):
            raise Refusal(
                400,
                f"Inference-Header-Content-Length is {header_length[:20].decode('latin-1')!r} "
                f"and the body has {len(body)} bytes",
                "give the number of bytes of the JSON part",
            )
        end = int(header_length)
    try:
        document = orjson.loads(memoryview(body)[:end])
    except orjson.JSONDecodeError as error:
        raise Refusal(
            400,
            f"the body is not JSON: {error}",
            "send JSON (NaN and Infinity are none); with binary tensors also Inference-Header-Content-Length",
        ) from error
    if not isinstance(document, dict):
        raise Refusal(400, "the body is not a JSON object", 'send {"inputs": [...]}')
    return document, memoryview(body)[end:]


def _parameters(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("parameters")
    return found if isinstance(found, dict) else {}


def _inputs(raw: Sequence[Mapping[str, Any]], tail: memoryview, signature: Signature) -> dict[str, Array]:
    specs = {spec.name: spec for spec in signature.inputs}
    names = [one.get("name") for one in raw]
    if (
        len(names) != len(specs)
        or not all(isinstance(name, str) for name in names)
        or set(names) != specs.keys()
    ):
        raise InputError(
            "input names",
            wanted=", ".join(specs),
            got=", ".join(str(name)[:200] for name in names) or "none",
            mend="send each input of the model's metadata exactly once",
        )
    inputs: dict[str, Array] = {}
    at = 0
    for one in raw:
        spec = specs[one["name"]]
        shape = _shape(one, spec)
        size = _parameters(one).get("binary_data_size")
        if size is None:
            inputs[spec.name] = _from_json(one, spec, shape)
            continue
        if type(size) is not int or size < 0 or at + size > len(tail):
            raise Refusal(
                400,
                f"input {spec.name!r} declares binary_data_size {str(size)[:40]} "
                f"and {len(tail) - at} bytes are left",
                "sizes of binary tensors sum to the bytes behind the JSON part",
            )
        inputs[spec.name] = _from_binary(tail[at : at + size], spec, shape)
        at += size
    if at != len(tail):
        raise Refusal(
            400,
            f"{len(tail) - at} bytes behind the JSON part belong to no input",
            "declare binary_data_size for each binary input",
        )
    return inputs


def _rows(inputs: Mapping[str, Array], tail: memoryview, signature: Signature) -> int:
    """Of the checks of `check_inputs`, names, types and shapes were made while reading; so for one input
    of JSON numbers, which can't be NaN, only an empty one is left to find."""
    if len(inputs) == 1 and not tail:
        (spec,) = signature.inputs
        array = inputs[spec.name]
        if array.size and array.ndim and len(set(spec.shape)) == len(spec.shape):
            return int(array.shape[0])
    return check_inputs(signature, inputs)


def _shape(one: Mapping[str, Any], spec: TensorSpec) -> tuple[int, ...]:
    if one.get("datatype") != spec.dtype.value:
        raise InputError(
            f"datatype of input {spec.name!r}",
            wanted=spec.dtype.value,
            got=str(one.get("datatype")),
            mend=f"convert the tensor to {spec.dtype.value}",
        )
    shape = one.get("shape")
    fits = (
        isinstance(shape, list)
        and len(shape) == len(spec.shape)
        and all(
            type(got) is int and got >= 0 and (isinstance(wanted, str) or got == wanted)
            for wanted, got in zip(spec.shape, shape, strict=True)
        )
        and math.prod(shape) <= MOST_ELEMENTS
        and max(shape, default=0) <= MOST_ELEMENTS
    )
    if not fits or not isinstance(shape, list):
        raise InputError(
            f"shape of input {spec.name!r}",
            wanted=describe(spec),
            got=str(shape)[:200],
            mend="the batch axis is the first one; named axes may have any size",
        )
    return tuple(shape)


def _from_binary(data: memoryview, spec: TensorSpec, shape: tuple[int, ...]) -> Array:
    if spec.dtype is Dtype.BYTES:
        return unpack_bytes(data, shape)
    dtype = numpy_dtype(spec.dtype)
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise InputError(
            f"data of input {spec.name!r}",
            wanted=f"{wanted} bytes for {spec.dtype.value}{list(shape)}",
            got=f"{len(data)} bytes",
            mend="send little-endian, row-major bytes without padding",
        )
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if spec.dtype is Dtype.BOOL and array.size and array.view(np.uint8).max() > 1:
        raise InputError(
            f"data of input {spec.name!r}", wanted="bytes 0 and 1", got="others", mend="send one byte a BOOL"
        )
    return array


def _from_json(one: Mapping[str, Any], spec: TensorSpec, shape: tuple[int, ...]) -> Array:
    data = one.get("data")
    if not isinstance(data, list):
        raise InputError(
            f"data of input {spec.name!r}",
            wanted="a list, or parameters.binary_data_size",
            got=type(data).__name__,
            mend="send the elements in row-major order",
        )
    array = _plain_numbers(data, spec)
    if array is not None and array.size == math.prod(shape):
        return array.reshape(shape)
    return json_tensor(spec.name, spec.dtype, data, shape)


def _plain_numbers(data: list[Any], spec: TensorSpec) -> Array | None:
    """The short way for what most callers send: a flat list of one kind of number that the type holds. None
    for everything else, which takes the long way and its error messages."""
    kinds = _PLAIN.get(spec.dtype)
    if kinds is None or not kinds.issuperset(map(type, data)):
        return None
    try:
        array = np.array(data, dtype=numpy_dtype(spec.dtype))
    except (OverflowError, RuntimeWarning):
        return None
    return array if math.isfinite(array.sum()) else None


def _wishes(
    raw: object, parameters: Mapping[str, Any], signature: Signature
) -> tuple[OutputWish, ...] | None:
    if not raw:
        return None
    known = {spec.name for spec in signature.outputs}
    binary = parameters.get("binary_data_output") is True
    wishes: list[OutputWish] = []
    for one in raw if isinstance(raw, list) else [raw]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(name, str) or name not in known:
            raise InputError(
                "output names",
                wanted=f"some of {', '.join(sorted(known))}",
                got=str(name)[:200],
                mend="take names from the model's metadata, or leave 'outputs' out",
            )
        wishes.append(OutputWish(name, _parameters(one).get("binary_data", binary) is True))
    return tuple(wishes)


def _dtype_of(array: Array) -> Dtype:
    found = dtype_name(array.dtype)
    assert found is not None, f"the engine's frame can't carry {array.dtype}"
    return found


def _json_data(array: Array, dtype: Dtype) -> object:
    if dtype is Dtype.BYTES:
        return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in array.ravel()]
    if dtype is Dtype.FP16:
        return array.astype(np.float32).ravel()
    return np.ascontiguousarray(array).ravel()
