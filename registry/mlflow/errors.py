"""Errors as MLflow's clients read them: `{"error_code": …, "message": …}`, with MLflow's own codes."""

import base64
import binascii
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from registry import problems
from registry.contract.problems import Problem, ProblemType
from registry.edge.route import EdgeRoute

log = logging.getLogger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

# MLflow's code and its HTTP status, by our problem.
_CODES: dict[ProblemType, tuple[str, int]] = {
    ProblemType.INVALID: ("INVALID_PARAMETER_VALUE", 400),
    ProblemType.IDEMPOTENCY_MISMATCH: ("INVALID_PARAMETER_VALUE", 400),
    ProblemType.TOO_LARGE: ("INVALID_PARAMETER_VALUE", 400),
    ProblemType.NOT_FOUND: ("RESOURCE_DOES_NOT_EXIST", 404),
    ProblemType.GONE: ("RESOURCE_DOES_NOT_EXIST", 404),
    ProblemType.UNAUTHENTICATED: ("UNAUTHENTICATED", 401),
    ProblemType.FORBIDDEN: ("PERMISSION_DENIED", 403),
    ProblemType.METHOD_NOT_ALLOWED: ("ENDPOINT_NOT_FOUND", 404),
    ProblemType.RATE_LIMITED: ("REQUEST_LIMIT_EXCEEDED", 429),
    ProblemType.UNAVAILABLE: ("TEMPORARILY_UNAVAILABLE", 503),
    ProblemType.INTERNAL: ("INTERNAL_ERROR", 500),
}
_OTHERWISE = ("RESOURCE_CONFLICT", 409)


class MlflowError(Exception):
    """For what has a code of MLflow's own and no problem of ours."""

    def __init__(self, code: str, status: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message


def respond(code: str, status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": message}, status, headers)


class MlflowRoute(EdgeRoute):
    """One transaction per request, as everywhere, and errors in MLflow's form."""

    def get_route_handler(self) -> Handler:
        return _in_mlflows_form(super().get_route_handler())


class MlflowLongRoute(APIRoute):
    """For what opens its own transactions."""

    def get_route_handler(self) -> Handler:
        return _in_mlflows_form(super().get_route_handler())


def _in_mlflows_form(handle: Handler) -> Handler:
    async def answered(request: Request) -> Response:
        try:
            return await handle(_with_bearer(request))
        except MlflowError as error:
            return respond(error.code, error.status, error.message)
        except ClientDisconnect:
            # Nobody reads this; what had come of a file is thrown away.
            return respond("CANCELLED", 499, "the client went away")
        except Exception as error:
            return await _told(request, error)

    return answered


def _with_bearer(request: Request) -> Request:
    """MLflow's clients send MLFLOW_TRACKING_TOKEN as bearer, and username and password as Basic."""
    scheme, _, coded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        _, _, secret = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        secret = ""
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"authorization"]
    request.scope["headers"] = [*headers, (b"authorization", f"Bearer {secret}".encode())]
    return Request(request.scope, request.receive)


async def _told(request: Request, error: Exception) -> Response:
    """What our own handlers would say, in MLflow's words."""
    said = await problems.answer(request, error)
    if not said.headers["content-type"].startswith(problems.MEDIA_TYPE):
        return said
    problem = Problem.model_validate_json(bytes(said.body))
    code, status = _CODES.get(ProblemType(problem.type.rsplit("/", 1)[-1]), _OTHERWISE)
    kept = {name: said.headers[name] for name in ("retry-after", "www-authenticate") if name in said.headers}
    return respond(code, status, f"{problem.detail}. Hint: {problem.hint}", kept)
