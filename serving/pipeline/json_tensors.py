"""JSON values as tensors, refusing everything that a silent conversion would change."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from registry.contract.pipeline import JsonTensors
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.inputs import check_inputs
from serving.pipeline.prepared import Cost, Prepared
from serving.pipeline.raw_json import json_cost, parsed
from serving.runtimes.dtypes import FLOATS, numpy_dtype
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.runtimes.tensors import describe

_INTEGERS = frozenset({Dtype.UINT8, Dtype.INT8, Dtype.INT16, Dtype.INT32, Dtype.INT64})


class JsonTensorsStep:
    """A JSON object of input name → nested list *without* the batch axis: a raw input is one row."""

    def __init__(self, spec: JsonTensors, signature: Signature) -> None:
        self._spec = spec
        self._signature = signature

    def cost(self, size: int) -> Cost:
        return json_cost(size)

    def prepare(self, raw: bytes) -> Prepared:
        """One row of every input. Raises InputError."""
        names = [spec.name for spec in self._signature.inputs]
        found = _object(raw, names)
        tensors = {
            spec.name: json_tensor(spec.name, spec.dtype, found[spec.name])[np.newaxis]
            for spec in self._signature.inputs
        }
        for spec in self._signature.inputs:
            _check_rank(spec, tensors[spec.name])
        check_inputs(self._signature, tensors)
        return Prepared(tensors)


def json_tensor(name: str, dtype: Dtype, data: object, shape: Sequence[int] | None = None) -> Array:
    """Nested lists (or with `shape` also a flat list in row-major order) → one tensor.

    Whole numbers may stand for floats, and booleans among numbers count as 0 and 1; no other type is taken
    for another, and a number that the type can't hold is refused. Raises InputError.
    """
    array = _plain(name, data)
    converted = _converted(name, dtype, array, data)
    if shape is None:
        return converted
    if (converted.shape != tuple(shape) and converted.ndim > 1) or converted.size != _count(shape):
        raise InputError(
            f"data of input {name!r}",
            wanted=f"{_count(shape)} elements for the shape {list(shape)}",
            got=f"{converted.size} elements of shape {list(converted.shape)}",
            mend="let `data` and `shape` agree",
        )
    return converted.reshape(tuple(shape))


def _object(raw: bytes, names: list[str]) -> dict[str, Any]:
    example = "{" + ", ".join(f'"{name}": […]' for name in names) + "}"
    value = parsed(raw, example)
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        got = ", ".join(value) or "an empty object" if isinstance(value, dict) else type(value).__name__
        raise InputError(
            "raw input", wanted=f"an object with {', '.join(names)}", got=got, mend=f"send {example}"
        )
    return value


def _plain(name: str, data: object) -> Array:
    try:
        array = np.array(data)
    except ValueError:
        array = None
    if array is None or (array.dtype.kind == "O" and array.size):
        raise InputError(
            f"data of input {name!r}",
            wanted="one number, text or boolean type in lists of equal length",
            got="ragged lists, null, objects or numbers beyond 64 bits",
            mend="fill the lists to one length and leave out null",
        )
    return array


def _converted(name: str, dtype: Dtype, array: Array, data: object) -> Array:
    kind = array.dtype.kind
    if not array.size:
        return np.empty(array.shape, dtype=numpy_dtype(dtype))
    if dtype is Dtype.BYTES and kind == "U":
        return _texts(name, data)
    if dtype is Dtype.BOOL and kind == "b":
        return array
    if dtype in FLOATS and kind in "iuf":
        return _float(name, dtype, array)
    if dtype in _INTEGERS and kind in "iu":
        return _integer(name, dtype, array)
    raise _wrong_type(name, dtype, kind)


def _texts(name: str, data: object) -> Array:
    texts = np.array(data, dtype=np.object_)
    if not all(isinstance(text, str) for text in texts.ravel()):
        raise _wrong_type(name, Dtype.BYTES, "mixed")
    return texts


def _wrong_type(name: str, dtype: Dtype, kind: str) -> InputError:
    words = {
        "U": "text",
        "b": "booleans",
        "i": "whole numbers",
        "u": "whole numbers",
        "f": "fractions",
        "mixed": "text and numbers",
    }
    return InputError(
        f"data of input {name!r}", wanted=dtype.value, got=words.get(kind, kind), mend="convert the values"
    )


def _float(name: str, dtype: Dtype, array: Array) -> Array:
    with np.errstate(over="ignore"):
        converted = array.astype(numpy_dtype(dtype))
    if not np.isfinite(converted).all():
        raise _out_of_range(name, dtype, float(np.finfo(numpy_dtype(dtype)).max))
    return converted


def _integer(name: str, dtype: Dtype, array: Array) -> Array:
    limits = np.iinfo(numpy_dtype(dtype))
    if int(array.min()) < limits.min or int(array.max()) > limits.max:
        raise _out_of_range(name, dtype, limits.max)
    return array.astype(numpy_dtype(dtype))


def _out_of_range(name: str, dtype: Dtype, most: float) -> InputError:
    return InputError(
        f"data of input {name!r}",
        wanted=f"{dtype.value}, at most {most:g}",
        got="a number beyond it",
        mend="scale the values as in training",
    )


def _check_rank(spec: TensorSpec, tensor: Array) -> None:
    if tensor.ndim != len(spec.shape):
        raise InputError(
            f"data of input {spec.name!r}",
            wanted=f"one row of {describe(spec)}: lists nested {len(spec.shape) - 1} deep",
            got=f"lists nested {tensor.ndim - 1} deep",
            mend="leave the batch axis out; several rows are sent to `infer`",
        )


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))
