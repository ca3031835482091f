"""Open Inference Protocol v2 over HTTP: request bodies → tensors, tensors → response bodies.

Both JSON data and the binary tensor extension (`Inference-Header-Content-Length`: so many bytes of JSON, then
the tensors' bytes in the order of the inputs that declare `binary_data_size`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson

from registry.contract.versions import Dtype, Signature
from serving.gateway.exchange import JSON, Response
from serving.gateway.oip_inputs import InputReader
from serving.gateway.refusals import Refusal
from serving.pipeline.inputs import check_inputs
from serving.runtimes.dtypes import dtype_name, pack_bytes
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

HEADER_LENGTH = b"inference-header-content-length"
BINARY = b"application/octet-stream"
LONGEST_NUMBER = 18

_NO_TAIL = memoryview(b"")
_DATATYPES = {dtype: dtype.value for dtype in Dtype}


class OutputWish(NamedTuple):
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


class Decoder:
    """Reads requests for one signature."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._readers = {spec.name: InputReader(spec) for spec in signature.inputs}
        self._outputs = frozenset(spec.name for spec in signature.outputs)
        # Of the checks of `check_inputs` reading makes those of names, types and fixed axes. For one input of
        # JSON numbers that has no named axis twice, only an empty one is left to find.
        shapes = [spec.shape for spec in signature.inputs]
        named = [axis for shape in shapes for axis in shape if isinstance(axis, str)]
        self._simple = len(shapes) == 1 and bool(shapes[0]) and len(set(named)) == len(named)

    def __call__(self, body: bytes, header_length: bytes | None) -> InferRequest:
        """Reads and checks a whole request. Raises Refusal (400: not this protocol), InputError (422)."""
        document, tail = _parts(body, header_length)
        inputs = self._inputs(document.get("inputs"), tail)
        parameters = _parameters(document)
        binary = parameters.get("binary_data_output") is True
        given_id = document.get("id")
        return InferRequest(
            id=given_id if isinstance(given_id, str) else None,
            inputs=inputs,
            rows=self._rows(inputs, tail),
            outputs=self._wishes(document.get("outputs"), binary),
            binary=binary,
        )

    def _inputs(self, raw: object, tail: memoryview) -> dict[str, Array]:
        if not isinstance(raw, list):
            raise _no_tensors()
        inputs: dict[str, Array] = {}
        at = 0
        for one in raw:
            if not isinstance(one, dict):
                raise _no_tensors()
            name = one.get("name")
            reader = self._readers.get(name) if isinstance(name, str) and name not in inputs else None
            if reader is None:
                raise self._wrong_names(raw)
            inputs[str(name)], at = reader.read(one, tail, at)
        if len(inputs) != len(self._readers):
            raise self._wrong_names(raw)
        if at != len(tail):
            raise Refusal(
                400,
                f"{len(tail) - at} bytes behind the JSON part belong to no input",
                "declare binary_data_size for each binary input",
            )
        return inputs

    def _wrong_names(self, raw: Sequence[object]) -> InputError:
        names = [one.get("name") if isinstance(one, dict) else None for one in raw]
        return InputError(
            "input names",
            wanted=", ".join(self._readers),
            got=", ".join(str(name)[:200] for name in names) or "none",
            mend="send each input of the model's metadata exactly once",
        )

    def _rows(self, inputs: dict[str, Array], tail: memoryview) -> int:
        """JSON has no NaN, binary tensors may."""
        if self._simple and not tail:
            (array,) = inputs.values()
            if array.size:
                return int(array.shape[0])
        return check_inputs(self._signature, inputs)

    def _wishes(self, raw: object, binary: bool) -> tuple[OutputWish, ...] | None:
        if not raw:
            return None
        wishes: list[OutputWish] = []
        for one in raw if isinstance(raw, list) else [raw]:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(one, dict) or not isinstance(name, str) or name not in self._outputs:
                raise InputError(
                    "output names",
                    wanted=f"some of {', '.join(sorted(self._outputs))}",
                    got=str(name)[:200],
                    mend="take names from the model's metadata, or leave 'outputs' out",
                )
            wishes.append(OutputWish(name, _parameters(one).get("binary_data", binary) is True))
        return tuple(wishes)


def encode(
    request: InferRequest, outputs: Mapping[str, Array], model: str, version: str, request_id: str
) -> Response:
    """Outputs in the order of the model, or as they were asked for."""
    wishes = request.outputs
    if wishes is None:
        wishes = tuple([OutputWish(name, request.binary) for name in outputs])
    tensors: list[dict[str, object]] = []
    tails: list[bytes] = []
    for name, binary in wishes:
        array = outputs[name]
        dtype = _dtype_of(array)
        tensor: dict[str, object] = {"name": name, "datatype": _DATATYPES[dtype], "shape": array.shape}
        if binary:
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
    head: bytes | memoryview = body
    tail = _NO_TAIL
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
        whole, end = memoryview(body), int(header_length)
        head, tail = whole[:end], whole[end:]
    try:
        document = orjson.loads(head)
    except orjson.JSONDecodeError as error:
        raise Refusal(
            400,
            f"the body is not JSON: {error}",
            "send JSON (NaN and Infinity are none); with binary tensors also Inference-Header-Content-Length",
        ) from error
    if not isinstance(document, dict):
        raise Refusal(400, "the body is not a JSON object", 'send {"inputs": [...]}')
    return document, tail


def _parameters(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("parameters")
    return found if isinstance(found, dict) else {}


def _no_tensors() -> Refusal:
    return Refusal(
        400,
        "'inputs' is not a list of tensors",
        'send {"inputs": [{"name", "shape", "datatype", "data"}]}',
    )


def _dtype_of(array: Array) -> Dtype:
    found = dtype_name(array.dtype)
    assert found is not None, f"the engine's frame can't carry {array.dtype}"
    return found


def _json_data(array: Array, dtype: Dtype) -> object:
    if dtype is Dtype.BYTES:
        return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in array.ravel()]
    if dtype is Dtype.FP16:
        return array.astype(np.float32).ravel()
    return array.ravel()
