"""Every error as an RFC 9457 problem document with a hint. Nothing else leaves the registry as an error."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm.exc import StaleDataError
from starlette.exceptions import HTTPException

from registry.contract.problems import FieldError, Problem, ProblemType
from registry.database import NO_SPACE
from registry.errors import Conflict, GuardFailed, Invalid, NotFound, Refusal, Unavailable
from registry.tables.journal import MoveRefused

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_PATHS = "/docs lists every path"
Handler = Callable[[Request, Exception], Coroutine[Any, Any, JSONResponse]]
OVERLOADED = ("55P03", "57014", "40001", "40P01")


def respond(
    request: Request,
    kind: ProblemType,
    status: int,
    title: str,
    detail: str,
    hint: str,
    reasons: tuple[str, ...] = (),
    errors: tuple[FieldError, ...] = (),
    retry_after_s: int | None = None,
) -> JSONResponse:
    problem = Problem(
        type=f"/problems/{kind}",
        title=title,
        status=status,
        detail=detail,
        hint=hint,
        request_id=request.scope.get("slipway.request_id"),
        reasons=reasons,
        errors=errors,
    )
    headers = {"retry-after": str(retry_after_s)} if retry_after_s is not None else {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(problem.model_dump(mode="json"), status, headers, MEDIA_TYPE)


async def refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return respond(
        request,
        error.kind,
        error.status,
        error.title,
        error.detail,
        error.hint,
        error.reasons,
        retry_after_s=error.retry_after_s,
    )


async def move_refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MoveRefused)
    problem = GuardFailed(str(error), "mend what the reasons name, then ask again", error.reasons)
    return await refused(request, problem)


async def overtaken(request: Request, _: Exception) -> JSONResponse:
    problem = Conflict("someone else changed it at the same moment", "read it again and repeat the request")
    return await refused(request, problem)


async def invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = tuple(
        FieldError(where=".".join(str(part) for part in item["loc"]), what=item["msg"])
        for item in error.errors()
    )
    first = errors[0] if errors else FieldError(where="body", what="it can't be read")
    return respond(
        request,
        ProblemType.INVALID,
        422,
        "The request is not valid",
        f"{first.where}: {first.what}" + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""),
        "correct the fields listed in errors; /docs describes each one",
        errors=errors,
    )


async def http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        path = request.url.path
        hint = f"it may be {path.rstrip('/')}; /docs lists every path" if path.endswith("/") else _PATHS
        return await refused(request, NotFound(f"there is nothing at {path}", hint))
    if error.status_code == 405:
        answer = respond(
            request,
            ProblemType.METHOD_NOT_ALLOWED,
            405,
            "Method not allowed",
            f"{request.url.path} does not take {request.method}",
            "/docs lists the methods of every path",
        )
        answer.headers["allow"] = (error.headers or {}).get("Allow", "")
        return answer
    if error.status_code < 500:
        problem = Invalid(str(error.detail), "see /docs for the form of this request")
        return respond(request, problem.kind, error.status_code, problem.title, problem.detail, problem.hint)
    return await crashed(request, error)


async def database_failed(request: Request, error: Exception) -> JSONResponse:
    original = getattr(error, "orig", error)
    state = getattr(original, "sqlstate", None)
    if state in NO_SPACE:
        log.error("the database can't write: %s", original)
        problem = Unavailable(
            "the database can't write: its disk is full, or fails",
            "make space where the database keeps its data; nothing of this request was done",
            retry_after_s=2,
        )
        return await refused(request, problem)
    away = isinstance(original, PoolTimeout | psycopg.InterfaceError) or (
        isinstance(original, psycopg.OperationalError) and (state is None or state[:2] in ("08", "53", "57"))
    )
    if away or state in OVERLOADED:
        log.warning("database not available: %s", error)
        problem = Unavailable("the database does not answer in time", "try again shortly", retry_after_s=1)
        return await refused(request, problem)
    # The driver itself refuses some values (NUL in a text) without asking the database, so without a state.
    if isinstance(original, psycopg.DataError) or (state is not None and state[:2] == "22"):
        return await refused(
            request, Invalid("a value can't be stored", "remove control characters and out-of-range numbers")
        )
    return await crashed(request, error)


async def crashed(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    answer = respond(
        request,
        ProblemType.INTERNAL,
        500,
        "The registry failed",
        "this is a fault of the registry, not of the request",
        "report it with the request id; the registry's log has the details",
    )
    # The exception goes on to the server, which then drops the connection: nobody may use it again.
    answer.headers["connection"] = "close"
    return answer


# The first one that fits; no kind is of another one, but for the last.
HANDLERS: tuple[tuple[type[Exception], Handler], ...] = (
    (Refusal, refused),
    (MoveRefused, move_refused),
    (StaleDataError, overtaken),
    (RequestValidationError, invalid),
    (HTTPException, http_error),
    (DBAPIError, database_failed),
    (psycopg.Error, database_failed),
    (PoolTimeout, database_failed),
    (Exception, crashed),
)


def install(app: FastAPI) -> None:
    for kind, handler in HANDLERS:
        app.add_exception_handler(kind, handler)


async def answer(request: Request, error: Exception) -> JSONResponse:
    """What FastAPI's routes would answer, for those that are not FastAPI's or say it in other words."""
    handler = next(handler for kind, handler in HANDLERS if isinstance(error, kind))
    return await handler(request, error)
