"""The first place where two things that should be equal differ, in words. Pure."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.data.samples import Array


def first_difference(
    where: str, wanted: Mapping[str, Array], got: Mapping[str, Array], max_abs: float
) -> str | None:
    """The first element of the first tensor that differs: whole numbers at all, others by more than `max_abs`
    (a NaN equals a NaN)."""
    for name, tensor in wanted.items():
        if name not in got:
            ours = ", ".join(map(repr, got)) or "nothing"
            return f"{where} {name!r}: it was recorded, and ours has only {ours}"
        other = got[name]
        if tensor.shape != other.shape:
            return f"{where} {name!r}: wanted shape {list(tensor.shape)}, got {list(other.shape)}"
        off = _differs(tensor, other, max_abs)
        if off.any():
            at = tuple(int(index) for index in np.argwhere(off)[0])
            return f"{where} {name!r}, element {list(at)}: wanted {tensor[at]!s}, got {other[at]!s}"
    return None


def _differs(wanted: Array, got: Array, max_abs: float) -> Array:
    if wanted.dtype.kind == "f" and got.dtype.kind in "fiu":
        off: Array = ~np.isclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=1e-6, atol=max_abs, equal_nan=True
        )
        return off
    if wanted.dtype.kind in "OSU":
        return np.array(
            [_text(a) != _text(b) for a, b in zip(wanted.ravel(), got.ravel(), strict=True)]
        ).reshape(wanted.shape)
    return np.asarray(wanted != got)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def answer_difference(where: str, wanted: Any, got: Any, max_abs: float) -> str | None:
    """Only what was recorded is compared; numbers within `max_abs` (relative above 1)."""
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return f"{where}: wanted an object, got {got!r}"
        for key, value in wanted.items():
            if key not in got:
                return f"{where}.{key}: wanted {value!r}, and ours has only {', '.join(got)}"
            found = answer_difference(f"{where}.{key}", value, got[key], max_abs)
            if found:
                return found
        return None
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"{where}: wanted {wanted!r}, got {got!r}"
        found_all = (
            answer_difference(f"{where}[{at}]", left, right, max_abs)
            for at, (left, right) in enumerate(zip(wanted, got, strict=True))
        )
        return next((found for found in found_all if found), None)
    if isinstance(wanted, float) and isinstance(got, int | float):
        return (
            None
            if math.isclose(wanted, got, rel_tol=max_abs, abs_tol=max_abs)
            else f"{where}: wanted {wanted!r}, got {got!r}"
        )
    return None if wanted == got else f"{where}: wanted {wanted!r}, got {got!r}"
