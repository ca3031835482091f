"""Data types under their Open Inference Protocol names ↔ numpy; the one place that maps them."""

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from registry.contract.versions import Dtype
from serving.runtimes.errors import InputError

_NUMPY: dict[Dtype, np.dtype[Any]] = {
    Dtype.BOOL: np.dtype(np.bool_),
    Dtype.UINT8: np.dtype(np.uint8),
    Dtype.INT8: np.dtype(np.int8),
    Dtype.INT16: np.dtype(np.int16),
    Dtype.INT32: np.dtype(np.int32),
    Dtype.INT64: np.dtype(np.int64),
    Dtype.FP16: np.dtype(np.float16),
    Dtype.FP32: np.dtype(np.float32),
    Dtype.FP64: np.dtype(np.float64),
    Dtype.BYTES: np.dtype(np.object_),
}
_DTYPE: dict[np.dtype[Any], Dtype] = {value: key for key, value in _NUMPY.items()}
_LENGTH = struct.Struct("<I")

FLOATS = frozenset({Dtype.FP16, Dtype.FP32, Dtype.FP64})


def numpy_dtype(dtype: Dtype) -> np.dtype[Any]:
    """BYTES are object arrays of `bytes` or `str`."""
    return _NUMPY[dtype]


def dtype_name(dtype: np.dtype[Any]) -> Dtype | None:
    """None where the protocol has no name for it. Fixed-width strings are BYTES."""
    found = _DTYPE.get(dtype)
    if found is None and dtype.kind in "SU":
        return Dtype.BYTES
    return found


def pack_bytes(array: npt.NDArray[Any]) -> bytes:
    """BYTES in the protocol's binary form: each element a little-endian uint32 length and its bytes."""
    parts: list[bytes] = []
    for element in array.ravel():
        data = element.encode() if isinstance(element, str) else bytes(element)
        parts.append(_LENGTH.pack(len(data)))
        parts.append(data)
    return b"".join(parts)


def unpack_bytes(data: bytes | memoryview, shape: Iterable[int]) -> npt.NDArray[Any]:
    """Inverse of `pack_bytes`, as an object array of `bytes`. Raises InputError when lengths don't fit."""
    view = memoryview(data)
    elements: list[bytes] = []
    at = 0
    while at < len(view):
        end = at + _LENGTH.size
        if end > len(view) or end + _LENGTH.unpack_from(view, at)[0] > len(view):
            raise _bad_lengths(f"an element at byte {at} that ends behind the last one")
        length = _LENGTH.unpack_from(view, at)[0]
        elements.append(bytes(view[end : end + length]))
        at = end + length
    sizes = tuple(shape)
    count = int(np.prod(sizes, dtype=np.int64))
    if len(elements) != count:
        raise _bad_lengths(f"{len(elements)} elements where the shape {list(sizes)} needs {count}")
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array.reshape(sizes)


def _bad_lengths(got: str) -> InputError:
    return InputError(
        "BYTES data",
        wanted="each element as a little-endian uint32 length and its bytes",
        got=got,
        mend="write lengths in bytes, not in characters",
    )
