"""One input tensor of the Open Inference Protocol → an array, checked while it is read.

What a signature says of an input is looked up once, when its reader is made, and not for every request.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from registry.contract.versions import Dtype, TensorSpec
from serving.gateway.refusals import Refusal
from serving.pipeline.json_tensors import json_tensor
from serving.runtimes.dtypes import numpy_dtype, unpack_bytes
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.runtimes.tensors import describe

# What any tensor may hold: far more than a body of the longest size, far less than what overflows.
MOST_ELEMENTS = 2**40

_FLOATS = frozenset({Dtype.FP32, Dtype.FP64})


class InputReader:
    """`read` takes one entry of a request's `inputs` whose name is this one's."""

    __slots__ = ("_datatype", "_dtype", "_finite", "_plain", "_shape", "_spec", "_wide")

    def __init__(self, spec: TensorSpec) -> None:
        self._spec = spec
        self._shape = spec.shape
        self._datatype = spec.dtype.value
        self._dtype = numpy_dtype(spec.dtype)
        self._finite = spec.dtype in _FLOATS
        # The one type of whole numbers that numpy makes of JSON's, so that nothing can be cut off.
        self._wide = spec.dtype is Dtype.INT64
        self._plain = self._finite or self._wide

    def read(self, one: Mapping[str, Any], tail: memoryview, at: int) -> tuple[Array, int]:
        """The array, and where the next input begins in `tail`, the bytes behind the JSON part. Raises
        Refusal, InputError."""
        shape = self._shape_of(one)
        parameters = one.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is None:
            return self._from_json(one.get("data"), shape), at
        if type(size) is not int or size < 0 or at + size > len(tail):
            raise Refusal(
                400,
                f"input {self._spec.name!r} declares binary_data_size {str(size)[:40]} "
                f"and {len(tail) - at} bytes are left",
                "sizes of binary tensors sum to the bytes behind the JSON part",
            )
        return self._from_binary(tail[at : at + size], shape), at + size

    def _shape_of(self, one: Mapping[str, Any]) -> tuple[int, ...]:
        if one.get("datatype") != self._datatype:
            raise InputError(
                f"datatype of input {self._spec.name!r}",
                wanted=self._datatype,
                got=str(one.get("datatype")),
                mend=f"convert the tensor to {self._datatype}",
            )
        shape = one.get("shape")
        if not isinstance(shape, list) or len(shape) != len(self._shape):
            raise self._wrong_shape(shape)
        elements = 1
        for axis, got in enumerate(shape):
            wanted = self._shape[axis]
            # `1.0` and `true` equal 1 and are no sizes.
            if type(got) is not int or not 0 <= got <= MOST_ELEMENTS:
                raise self._wrong_shape(shape)
            if got != wanted and not isinstance(wanted, str):
                raise self._wrong_shape(shape)
            elements *= got
        if elements > MOST_ELEMENTS:
            raise self._wrong_shape(shape)
        return tuple(shape)

    def _wrong_shape(self, got: object) -> InputError:
        return InputError(
            f"shape of input {self._spec.name!r}",
            wanted=describe(self._spec),
            got=str(got)[:200],
            mend="the batch axis is the first one; named axes may have any size",
        )

    def _from_json(self, data: object, shape: tuple[int, ...]) -> Array:
        if not isinstance(data, list):
            raise InputError(
                f"data of input {self._spec.name!r}",
                wanted="a list, or parameters.binary_data_size",
                got=type(data).__name__,
                mend="send the elements in row-major order",
            )
        array = self._plain_numbers(data) if self._plain else None
        if array is not None and array.size == math.prod(shape):
            return array.reshape(shape)
        return json_tensor(self._spec.name, self._spec.dtype, data, shape)

    def _plain_numbers(self, data: list[Any]) -> Array | None:
        """The short way for what most callers send: a flat list of numbers that the type holds. None for
        everything else, which takes the long way and its error messages."""
        try:
            array = np.array(data)
            kind = array.dtype.kind
            if array.ndim != 1 or not (kind == "i" or (kind == "f" and self._finite)):
                return None
            if self._wide:
                return array
            array = array.astype(self._dtype, copy=False)
            # One number that is too large for the type makes the sum so.
            return array if math.isfinite(np.add.reduce(array)) else None
        except (ValueError, RuntimeWarning):
            return None

    def _from_binary(self, data: memoryview, shape: tuple[int, ...]) -> Array:
        dtype = self._dtype
        if dtype.hasobject:
            return unpack_bytes(data, shape)
        wanted = math.prod(shape) * dtype.itemsize
        if len(data) != wanted:
            raise InputError(
                f"data of input {self._spec.name!r}",
                wanted=f"{wanted} bytes for {self._datatype}{list(shape)}",
                got=f"{len(data)} bytes",
                mend="send little-endian, row-major bytes without padding",
            )
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
        if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise InputError(
                f"data of input {self._spec.name!r}",
                wanted="bytes 0 and 1",
                got="others",
                mend="send one byte a BOOL",
            )
        return array
