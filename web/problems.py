"""What went wrong, as a page: what, with what, how to mend it, and under which request id it is logged."""

import logging
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from registry.client import ApiError, Unreachable
from web.origin import ForeignForm
from web.pages.login import arrive, back_to
from web.registry import SignedOut, failure
from web.render import Frame, page

log = logging.getLogger(__name__)

AWAY_REFRESH_S = 5


@dataclass(frozen=True, slots=True)
class Trouble:
    """`ref`: the deployment that the page was about, for its last resort; empty where there is none."""

    title: str
    detail: str
    hint: str
    ref: str = ""


async def signed_out(request: Request, _: Exception) -> Response:
    if request.url.path.startswith("/rev/"):
        return JSONResponse({"signed_out": True}, 401)
    bounce = arrive(request)
    if bounce is not None:
        return bounce
    return RedirectResponse(f"/login?next={quote(back_to(request), safe='')}", 303)


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    problem = error.problem
    detail = "; ".join((problem.detail, *problem.reasons))
    return _page(request, error.status, problem.title, detail, problem.hint)


async def away(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unreachable | TimeoutError | ValidationError)
    told = failure("this page", error, request.scope["slipway.request_id"])
    return _page(request, 503, "The registry does not answer", told.detail, told.hint)


async def foreign(request: Request, error: Exception) -> Response:
    return _page(
        request,
        403,
        "This form was not sent from here",
        f"Nothing was changed: {error}.",
        "open the page at this very address and press there",
    )


async def unusable(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _page(
        request, 422, "The form is not complete", f"{where}: {first['msg']}", "go back and try again"
    )


async def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _page(request, 404, "Not found", f"There is no page {request.url.path}.", "start at Releases")
    return _page(request, error.status_code, "Not possible", str(error.detail), "start at Releases")


async def crashed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _page(
        request,
        500,
        "This page failed",
        "It is a fault of the web UI; what is served is not touched by it.",
        "use the command line meanwhile, and report the request id",
    )


def _page(request: Request, status: int, title: str, detail: str, hint: str) -> Response:
    again = AWAY_REFRESH_S if status >= 500 and request.method == "GET" else None
    trouble = Trouble(title, detail, hint, _ref(request.url.path))
    return page(request, "problem.html", Frame(title, refresh_s=again), status, trouble=trouble)


def _ref(path: str) -> str:
    parts = path.split("/")
    return f"{parts[2]}/{parts[3]}" if len(parts) >= 4 and parts[1] == "d" else ""


def install(app: FastAPI) -> None:
    app.add_exception_handler(SignedOut, signed_out)
    app.add_exception_handler(ApiError, refused)
    for kind in (Unreachable, TimeoutError, ValidationError):
        app.add_exception_handler(kind, away)
    app.add_exception_handler(ForeignForm, foreign)
    app.add_exception_handler(RequestValidationError, unusable)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, crashed)
