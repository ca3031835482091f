"""Golden pairs as the training code recorded them: one JSON object a line, binary parts in base64."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from builder.data.samples import Array
from builder.steps.step import Refused
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.dtypes import numpy_dtype, unpack_bytes
from serving.runtimes.errors import InputError

_FORM = (
    '{"raw": base64, "inputs": {name: {dtype, shape, data: base64}}, "outputs": {…}, "answer": {…}} '
    "(a list of answers where the raw input makes several rows)"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """`answers`: one per row; none where none were recorded."""

    number: int
    raw: bytes
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    answers: tuple[dict[str, Any], ...]


def read_pairs(path: Path, signature: Signature) -> Iterator[Pair]:
    """Raises Refused on a line that is no pair."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = orjson.loads(line)
                yield Pair(
                    number,
                    base64.b64decode(found["raw"], validate=True),
                    _tensors(found.get("inputs") or {}, signature.inputs),
                    _tensors(found.get("outputs") or {}, signature.outputs),
                    _answers(found.get("answer")),
                )
            except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
                raise Refused(
                    f"line {number} of the golden file is no pair ({type(error).__name__}: {error}); "
                    f"a pair is {_FORM}"
                ) from error


def _answers(found: Any) -> tuple[dict[str, Any], ...]:
    if not found:
        return ()
    return tuple(dict(one) for one in (found if isinstance(found, list) else [found]))


def _tensors(found: Mapping[str, Any], specs: tuple[TensorSpec, ...]) -> dict[str, Array]:
    """Little-endian, rows first; a batch axis of 1 is added where it was left out."""
    ranks = {spec.name: len(spec.shape) for spec in specs}
    tensors: dict[str, Array] = {}
    for name, value in found.items():
        dtype, data = Dtype(value["dtype"]), base64.b64decode(value["data"], validate=True)
        if dtype is Dtype.BYTES:
            tensor = unpack_bytes(data, value["shape"])
        else:
            plain = numpy_dtype(dtype).newbyteorder("<")
            tensor = np.frombuffer(data, dtype=plain).reshape(value["shape"]).astype(numpy_dtype(dtype))
        tensors[name] = tensor[np.newaxis] if tensor.ndim == ranks.get(name, tensor.ndim) - 1 else tensor
    return tensors
