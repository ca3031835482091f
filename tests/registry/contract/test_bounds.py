"""No number of a request is so large, or so odd, that what comes after it breaks."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from registry.app import ROUTERS
from registry.contract.builds import BuildCreate
from registry.contract.nodes import Applied, Report
from registry.contract.versions import VersionCreate


def _routes(router: Any) -> Iterator[APIRoute]:
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _routes(route.original_router)


def _bodies() -> set[type[BaseModel]]:
    """Of every route, and of the node's two that FastAPI does not know."""
    routes = [route for router in ROUTERS for route in _routes(router)]
    asked = {model for each in routes if each.body_field for model in _models(each.body_field.field_info)}
    return asked | {Report, Applied}


def _models(kind: Any) -> set[type[BaseModel]]:
    if isinstance(kind, FieldInfo):
        kind = kind.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {kind}
    return {model for part in get_args(kind) for model in _models(part)}


def _reached(models: set[type[BaseModel]]) -> set[type[BaseModel]]:
    found: set[type[BaseModel]] = set()
    waiting = set(models)
    while waiting:
        model = waiting.pop()
        found.add(model)
        waiting |= {one for field in model.model_fields.values() for one in _models(field)} - found
    return found


def _open(kind: Any, constraints: tuple[Any, ...]) -> bool:
    """Whether somewhere in the type there is a whole number without a bound on either side."""
    if kind is int:
        told = {type(each) for each in _flat(constraints)}
        low = told & {annotated_types.Ge, annotated_types.Gt}
        return not (low and told & {annotated_types.Le, annotated_types.Lt})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return False
    if origin is Annotated:
        return _open(inner[0], (*constraints, *inner[1:]))
    passed = constraints if origin in (Union, UnionType) else ()
    return any(_open(each, passed) for each in inner)


def _flat(constraints: tuple[Any, ...]) -> Iterator[Any]:
    for each in constraints:
        yield from each.metadata if isinstance(each, FieldInfo) else (each,)


def test_every_whole_number_of_every_request_is_bounded() -> None:
    unbounded = [
        f"{model.__name__}.{name}"
        for model in _reached(_bodies())
        for name, field in model.model_fields.items()
        if _open(field.annotation, tuple(field.metadata))
    ]
    assert sorted(unbounded) == []


def test_the_walk_sees_the_requests() -> None:
    assert {BuildCreate, VersionCreate, Report} <= _bodies()
    assert {"Limits", "Signature", "TensorSpec", "CounterReport", "SessionCreate"} <= {
        model.__name__ for model in _reached(_bodies())
    }
