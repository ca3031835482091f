"""The hottest write of the registry as raw ASGI, in front of FastAPI: POST /v1/models/{model}/versions.

A plain request is one statement here. Everything else goes on to the ordinary endpoint with the same body, so
that there is one place that says what is wrong with a request.
"""

import re

import psycopg
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry import problems
from registry.contract.asked import Misread, read
from registry.contract.identity import NAME_PATTERN
from registry.contract.versions import VersionCreate
from registry.edge.idempotency import MAX_KEY
from registry.edge.principal import hash_secret, secret_of
from registry.edge.resources import Resources
from registry.errors import Unauthenticated, Unavailable
from registry.models.quick_create import Asked, Made, create, is_plain

PATH = re.compile(rf"^/v1/models/(?P<model>{NAME_PATTERN.strip('^$')})/versions$")
ROUTE = "/v1/models/{model}/versions"


class QuickCreates:
    """`inner` answers everything else."""

    def __init__(self, app: FastAPI, inner: ASGIApp) -> None:
        self._app = app
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        found = PATH.match(scope["path"]) if is_post else None
        if found is None:
            await self._inner(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            # Before a connection is taken: none is held while a slow sender sends.
            body = await request.body()
        except ClientDisconnect:
            return
        try:
            response = await self._answer(request, found["model"], body)
        except Exception as error:
            response = await problems.answer(request, error)
        if response is None:
            await self._inner(scope, _again(body, receive), send)
        else:
            await response(scope, receive, send)

    async def _answer(self, request: Request, model: str, content: bytes) -> Response | None:
        """None: for the ordinary endpoint."""
        resources: Resources = self._app.state.resources
        asked = _asked(request, model, content)
        try:
            body = read(VersionCreate, content)
        except Misread:
            return None
        if asked is None or not is_plain(body, resources.settings.max_version_bytes):
            return None
        database = resources.database
        try:
            async with database.turns.turn(), database.autocommit() as connection:
                made = await create(connection, asked, body, prepare=database.prepares)
        except psycopg.OperationalError as error:
            if asked.key is None and (error.sqlstate or "57")[:2] in ("08", "57"):
                # It may have been done; without a key a repetition would do it twice.
                raise Unavailable(
                    "the database went away while the version was made", "see whether it was", retry_after_s=1
                ) from error
            return None
        except psycopg.Error:
            return None
        return None if made is None else _created(request, model, made)


def _asked(request: Request, model: str, content: bytes) -> Asked | None:
    """None: something about its headers is not as it should be."""
    headers = request.headers
    key = headers.get("idempotency-key")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    if key is not None and not 1 <= len(key) <= MAX_KEY:
        return None
    try:
        secret = secret_of(headers.get("authorization"))
    except Unauthenticated:
        return None
    return Asked(
        model=model,
        secret_hash=hash_secret(secret),
        route=f"{request.method} {request.url.path}?{request.url.query}",
        key=key,
        via=headers.get("x-slipway-via", "API")[:16],
        request_id=request.scope.get("slipway.request_id"),
        body=content,
    )


def _created(request: Request, model: str, made: Made) -> Response:
    request.scope["slipway.route"] = ROUTE
    request.scope["slipway.principal"] = made.actor
    headers = {"etag": '"1"', "location": f"/v1/models/{model}/versions/{made.number}"}
    return Response(made.answer, 201, headers, "application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more."""
    first = True

    async def told() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return told
