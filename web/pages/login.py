"""Signing in by token: the token is swapped for a session, and only the session's secret stays here."""

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from registry.client import ApiError, access
from registry.contract.tokens import SessionCreate
from web.origin import require_own
from web.registry import SignedOut
from web.render import Frame, page
from web.visitor import COOKIE, asker, forget, remember

router = APIRouter()

# What may stand in an address as it is; the rest is quoted.
URL = "/?&=%:@+,~"


@router.get("/login")
async def show(request: Request, next: str = "/") -> Response:
    return page(request, "login.html", Frame("Sign in"), next=local(next), trouble="", hint="")


@router.post("/login", dependencies=[Depends(require_own)])
async def sign_in(
    request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "/"
) -> Response:
    seconds: int = request.app.state.settings.session_s
    try:
        made = await asker(request, token.strip()).must(
            access.create_session(SessionCreate(expires_in_s=seconds))
        )
    except SignedOut as error:
        assert isinstance(error.__cause__, ApiError)
        return _refused(request, error.__cause__, next)
    except ApiError as error:
        return _refused(request, error, next)
    response = RedirectResponse(local(next), 303)
    remember(request, response, made.secret, seconds)
    return response


@router.post("/logout", dependencies=[Depends(require_own)])
async def sign_out(request: Request) -> Response:
    """The session is over at the registry too. A session that was over already is no trouble."""
    response = RedirectResponse("/login", 303)
    forget(response)
    secret = request.cookies.get(COOKIE)
    if secret:
        try:
            await asker(request, secret).must(access.end_session())
        except SignedOut:
            return response
    return response


def _refused(request: Request, error: ApiError, next: str) -> Response:
    return page(
        request,
        "login.html",
        Frame("Sign in: refused"),
        error.status,
        next=local(next),
        trouble=error.problem.detail,
        hint=error.problem.hint,
    )


def local(address: str) -> str:
    """A path on this very server; anything else becomes the start page."""
    parts = urlsplit(address)
    plain = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if plain and not parts.netloc and "\\" not in address and address.isprintable() else "/"


def back_to(request: Request) -> str:
    """Where to go on after signing in: the page itself, or the page whose form was sent."""
    if request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        return local(request.url.path + query)
    sent_from = urlsplit(request.headers.get("referer", ""))
    return local(sent_from.path or "/") if sent_from.netloc == request.headers.get("host") else "/"


def arrive(request: Request) -> Response | None:
    """A link in a chat or a pager is a visit from another site: the browser then keeps the cookie back.

    One step from a page of our own, and it is sent. None: the visitor really is signed out.
    """
    if request.method != "GET" or request.headers.get("sec-fetch-site") != "cross-site":
        return None
    here = back_to(request)
    body = Markup('<!doctype html><title>Slipway</title><a href="{}">Go on</a>').format(here)
    return HTMLResponse(
        body, headers={"refresh": f"0; url={quote(here, safe=URL)}", "cache-control": "no-store"}
    )
