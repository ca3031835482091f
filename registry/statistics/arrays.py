"""Array types shared by the statistics, and the one way states become plain JSON and come back."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Json = dict[str, Any] | list[Any] | str | int | float | bool | None

T = TypeVar("T", bound="Stateful")


class Stateful:
    """Base of every frozen dataclass that the registry stores between looks.

    `to_state` gives plain lists, numbers and strings; `from_state` gives back an equal object.
    Unknown keys are ignored, so an older reader takes what a newer writer stored.
    """

    __slots__ = ()

    def to_state(self) -> dict[str, Any]:
        """A JSON-able dictionary of this object."""
        return {field.name: _pack(getattr(self, field.name)) for field in _fields(type(self))}

    @classmethod
    def from_state(cls: type[T], state: Mapping[str, Any]) -> T:
        """The object that `to_state` described.

        Raises:
            ValueError: when a field that has no default is missing.
        """
        hints = typing.get_type_hints(cls)
        missing = [
            f.name
            for f in _fields(cls)
            if f.name not in state
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise ValueError(
                f"stored {cls.__name__} lacks {', '.join(missing)}: it was written by another version; "
                "rebuild it by replaying the stored batches"
            )
        known = {name: _unpack(hints[name], state[name]) for name in hints if name in state}
        return cls(**known)


def floats(values: npt.ArrayLike) -> Floats:
    """`values` as a float64 array (no copy when it already is one)."""
    return np.asarray(values, dtype=np.float64)


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _pack(value: object) -> Json:
    if isinstance(value, np.ndarray):
        # The shape is kept because an empty axis leaves no trace in nested lists.
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, Stateful):
        return value.to_state()
    if isinstance(value, tuple):
        return [_pack(item) for item in value]
    if isinstance(value, Enum):
        return _pack(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no stored form")


def _unpack(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin is np.ndarray:
        return floats(value["values"]).reshape(value["shape"])
    if origin is tuple:
        (item, *_) = typing.get_args(hint)
        return tuple(_unpack(item, part) for part in value)
    if isinstance(hint, type) and issubclass(hint, Stateful):
        return hint.from_state(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    arms = typing.get_args(hint)
    if type(None) in arms:
        if value is None:
            return None
        return _unpack(next(arm for arm in arms if arm is not type(None)), value)
    return value
