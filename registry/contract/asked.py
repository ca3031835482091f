"""Reading what people send: fields that nobody knows are refused at every depth, and a number is a number.

What was stored or answered is read with `model_validate` instead, which ignores what a later registry added.
"""

import difflib
from collections.abc import Sequence
from functools import cache
from inspect import isclass
from typing import Any, Literal, TypeVar, get_args, get_origin

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from registry.contract.problems import FieldError

T = TypeVar("T")


class Misread(ValueError):
    """What was sent is not what was asked for. `errors` names every place; an empty `where` is the whole."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


def parsed(content: bytes) -> Any:
    """JSON as RFC 8259 has it: UTF-8, without NaN and Infinity. Raises Misread with line and column."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        what = f"not UTF-8 (line {line}, byte {column} of it)"
        raise Misread([FieldError(where="", what=what)]) from error
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        what = f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise Misread([FieldError(where="", what=what)]) from error


def read(kind: type[T], content: bytes) -> T:
    """JSON of a model that a person asks with. Raises Misread."""
    parsed(content)
    whole: Any = kind
    try:
        made: T = _reader(whole).validate_json(content, strict=True, extra="forbid")
    except ValidationError as error:
        raise Misread(faults(error, kind)) from error
    return made


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def faults(error: ValidationError, kind: Any) -> tuple[FieldError, ...]:
    """What is wrong where, with the nearest known name beside an unknown one."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    places = {each["loc"][:depth] for each in found for depth in range(len(each["loc"]))}
    return tuple(
        FieldError(
            where=".".join(str(part) for part in each["loc"]),
            what=_unknown(kind, each["loc"]) if each["type"] == "extra_forbidden" else each["msg"],
        )
        for each in found
        # A list is too short only because its items are wrong.
        if each["type"] != "too_short" or each["loc"] not in places
    )


def _unknown(kind: Any, place: Sequence[str | int]) -> str:
    known = _names(kind, place[:-1])
    near = difflib.get_close_matches(str(place[-1]), known, 1)
    if near:
        return f"there is no such field; did you mean {near[0]}?"
    return f"there is no such field; there are {', '.join(known)}" if known else "nothing is taken here"


def _names(kind: Any, place: Sequence[str | int]) -> list[str]:
    """Fields of the model at `place`, which also holds positions, keys, and tags of unions."""
    models = _models(kind)
    for part in place:
        if any(part in model.model_fields for model in models):
            models = [
                found
                for model in models
                if part in model.model_fields
                for found in _models(model.model_fields[str(part)].annotation)
            ]
        else:
            models = [model for model in models if _has_tag(model, part)] or models
    return sorted({name for model in models for name in model.model_fields})


def _models(kind: Any) -> list[type[BaseModel]]:
    """The models that a type is made of: itself, of its items, or of its alternatives."""
    if isclass(kind) and issubclass(kind, BaseModel):
        return [kind]
    return [model for part in get_args(kind) for model in _models(part)]


def _has_tag(model: type[BaseModel], tag: str | int) -> bool:
    return any(
        get_origin(field.annotation) is Literal and tag in get_args(field.annotation)
        for field in model.model_fields.values()
    )
