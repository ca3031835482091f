"""The published description: every operation says that errors are problem documents, and who may call it."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from registry.contract.problems import Problem
from registry.problems import MEDIA_TYPE

_REF = "#/components/schemas/{model}"
_PROBLEM = {"$ref": _REF.format(model="Problem")}
_OPEN = ("/healthz", "/readyz", "/metrics")


def install(app: FastAPI) -> None:
    """Replaces the app's own description, which knows neither problems nor tokens."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template=_REF)
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _complete(path, operation)
    for schema in schemas.values():
        _loosen(schema)
    return made


def _loosen(schema: Any) -> None:
    """`oneOf` without a discriminator that a description can name: what is known fits the unknown too."""
    if isinstance(schema, list):
        for each in schema:
            _loosen(each)
    elif isinstance(schema, dict):
        if "oneOf" in schema and "discriminator" not in schema:
            schema["anyOf"] = schema.pop("oneOf")
        for each in schema.values():
            _loosen(each)


def _complete(path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    told = {"content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
    responses.setdefault("4XX", {"description": "Refused: what is wrong and how to mend it", **told})
    responses.setdefault("5XX", {"description": "Failed, or not available now", **told})
    if path not in _OPEN:
        operation.setdefault("security", [{"token": []}])
