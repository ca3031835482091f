"""Are these tensors what the version's signature promises? Asked before anything is queued."""

from collections.abc import Container

import numpy as np

from registry.contract.versions import Signature, TensorSpec
from serving.runtimes.dtypes import FLOATS, dtype_name
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array, Tensors
from serving.runtimes.tensors import check_tensors, describe


def check_inputs(signature: Signature, tensors: Tensors, nan: Container[str] = ()) -> int:
    """Names, dtypes, ranks, fixed and named dimensions (one name, one size), rows, NaN (but for inputs in
    `nan`, where it means something). Returns the rows.

    Raises InputError, which says what is wrong, wanted, got, and how to mend it.
    """
    check_tensors(signature.inputs, tensors)
    sizes: dict[str, tuple[int, str]] = {}
    for spec in signature.inputs:
        tensor = tensors[spec.name]
        _check_names(spec, tensor, sizes)
        if not tensor.size:
            raise _empty(spec, tensor)
        if spec.name not in nan and dtype_name(tensor.dtype) in FLOATS and np.isnan(tensor).any():
            raise InputError(
                f"values of input {spec.name!r}",
                wanted="numbers",
                got=f"NaN in row {_first_nan(tensor)}",
                mend="fill or leave out missing values as in training",
            )
    return rows_of(tensors)


def rows_of(tensors: Tensors) -> int:
    """The size of the batch axis, which all inputs share. Raises InputError when they don't."""
    rows = {name: tensor.shape[0] if tensor.ndim else 1 for name, tensor in tensors.items()}
    counts = set(rows.values())
    if len(counts) != 1:
        raise InputError(
            "rows of the inputs",
            wanted="the same first dimension in all inputs",
            got=", ".join(f"{name}: {count}" for name, count in rows.items()),
            mend="send each row in every input",
        )
    return counts.pop()


def _check_names(spec: TensorSpec, tensor: Array, sizes: dict[str, tuple[int, str]]) -> None:
    for axis, (dimension, size) in enumerate(zip(spec.shape, tensor.shape, strict=True)):
        if not isinstance(dimension, str):
            continue
        known, where = sizes.setdefault(dimension, (size, f"axis {axis} of {spec.name!r}"))
        if known != size:
            raise InputError(
                f"shape of input {spec.name!r}",
                wanted=f"{describe(spec)} with {dimension} = {known}, as in {where}",
                got=str(list(tensor.shape)),
                mend=f"let every dimension named {dimension} have one size",
            )


def _empty(spec: TensorSpec, tensor: Array) -> InputError:
    return InputError(
        f"shape of input {spec.name!r}",
        wanted=f"{describe(spec)} with at least one row and no empty dimension",
        got=str(list(tensor.shape)),
        mend="send at least one row, or no request at all",
    )


def _first_nan(tensor: Array) -> int:
    return int(np.argwhere(np.isnan(tensor))[0][0]) if tensor.ndim else 0
