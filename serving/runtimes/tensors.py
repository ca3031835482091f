"""Do these tensors fit these specs? What every runtime asks before it runs."""

from collections.abc import Sequence

import numpy as np

from registry.contract.versions import TensorSpec
from serving.runtimes.dtypes import dtype_name
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array, Tensors


def describe(spec: TensorSpec) -> str:
    """`FP32[batch, 3, 224]`."""
    return f"{spec.dtype.value}[{', '.join(str(size) for size in spec.shape)}]"


def check_tensors(specs: Sequence[TensorSpec], tensors: Tensors) -> None:
    """Names, data types, ranks and fixed dimensions. Raises InputError for the first that is wrong."""
    if len(tensors) != len(specs) or any(spec.name not in tensors for spec in specs):
        raise _wrong_names(specs, tensors)
    for spec in specs:
        tensor = tensors[spec.name]
        _check_dtype(spec, tensor)
        if len(tensor.shape) != len(spec.shape):
            raise _wrong_shape(spec, tensor, f"the rank is {len(spec.shape)}, the batch axis is the first")
        for axis, (wanted, got) in enumerate(zip(spec.shape, tensor.shape, strict=True)):
            if wanted != got and not isinstance(wanted, str):
                raise _wrong_shape(spec, tensor, f"axis {axis} must be {wanted}")


def decoded(name: str, tensor: Array) -> Array:
    """BYTES as runtimes take them: `str` elements. Raises InputError for what is no UTF-8."""
    try:
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in tensor.ravel()]
    except UnicodeDecodeError as error:
        raise InputError(
            f"input {name!r}", wanted="text in UTF-8", got=str(error), mend="encode the text in UTF-8"
        ) from error
    found = np.empty(len(texts), dtype=np.object_)
    found[:] = texts
    return found.reshape(tensor.shape)


def _check_dtype(spec: TensorSpec, tensor: Array) -> None:
    got = dtype_name(tensor.dtype)
    if got is not spec.dtype:
        raise InputError(
            f"dtype of input {spec.name!r}",
            wanted=spec.dtype.value,
            got=str(tensor.dtype) if got is None else got.value,
            mend=f"convert the tensor to {spec.dtype.value}",
        )


def _wrong_names(specs: Sequence[TensorSpec], tensors: Tensors) -> InputError:
    names = [spec.name for spec in specs]
    missing = [name for name in names if name not in tensors]
    unknown = [name for name in tensors if name not in names]
    advice = [f"add {', '.join(missing)}"] if missing else []
    advice += [f"leave out {', '.join(unknown)}"] if unknown else []
    return InputError(
        "input names", wanted=", ".join(names), got=", ".join(tensors) or "none", mend=" and ".join(advice)
    )


def _wrong_shape(spec: TensorSpec, tensor: Array, mend: str) -> InputError:
    return InputError(
        f"shape of input {spec.name!r}", wanted=describe(spec), got=str(list(tensor.shape)), mend=mend
    )
