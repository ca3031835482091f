"""The node protocol's hot routes as raw ASGI, in front of FastAPI: assignment, reports, applied.

A waiting node holds a socket and a waiter, and no database session.
"""

import asyncio
import math
import re
from contextlib import suppress
from time import monotonic
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from registry import problems
from registry.contract.nodes import Applied, Report
from registry.contract.tokens import Role
from registry.errors import Invalid
from registry.nodes.assignments import Answer
from registry.nodes.room import NodeRoom
from registry.requestid import BodyTooLarge

M = TypeVar("M", bound=BaseModel)

LONGEST_WAIT_S = 30.0
PATH = re.compile(r"^/v1/nodes/(?P<node>[^/]+)/(?P<what>assignment|reports|applied)$")
METHODS = {"assignment": "GET", "reports": "POST", "applied": "POST"}


class NodeRoutes:
    """Answers the hot routes itself; everything else is the app's."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = PATH.match(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["slipway.route"] = f"/v1/nodes/{{node}}/{found['what']}"
        request = Request(scope, receive)
        response = await self._answer(request, found["node"], found["what"])
        if response is not None:
            await response(scope, receive, send)

    async def _answer(self, request: Request, node_id: str, what: str) -> Response | None:
        """None: the caller has gone."""
        try:
            if request.method != METHODS[what]:
                raise HTTPException(405, headers={"Allow": METHODS[what]})
            room: NodeRoom = self._app.state.nodes
            await _allow(room, request, node_id)
            if what == "assignment":
                return await _assignment(room, request, node_id)
            node = await room.directory.node(node_id)
            if what == "reports":
                await room.intake.report(node, await _body(request, Report))
            else:
                await room.intake.applied(node, await _body(request, Applied))
            return Response(status_code=204)
        except ClientDisconnect:
            return None
        except BodyTooLarge:
            raise
        except Exception as error:
            return await problems.answer(request, error)


async def _allow(room: NodeRoom, request: Request, node_id: str) -> None:
    principal = await room.tokens.check(request.headers.get("authorization"))
    request.scope["slipway.principal"] = principal.name
    principal.require(Role.NODE)
    principal.require_node(node_id)


async def _assignment(room: NodeRoom, request: Request, node_id: str) -> Response | None:
    """Register, read, wait, read again. 304 when the time is over and nothing has changed."""
    until = monotonic() + _wait_s(request)
    seen = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    node = await room.directory.node(node_id)
    room.intake.contact(node_id)
    answer = room.assignments.of(node)
    if answer.etag not in seen:
        return _changed(answer)
    gone = asyncio.create_task(_disconnected(request.receive))
    try:
        with room.directory.waiters.register(node.environment) as waiter:
            gone.add_done_callback(lambda _: waiter.wake())
            while True:
                # Read between registering and waiting: a change in between is seen or wakes.
                answer = room.assignments.of(await room.directory.node(node_id))
                if answer.etag not in seen:
                    await _allow(room, request, node_id)
                    return _changed(answer)
                left = until - monotonic()
                if left <= 0:
                    return Response(status_code=304, headers={"etag": answer.etag})
                await waiter.wait(left)
                if gone.done():
                    return None
    finally:
        gone.cancel()


def _changed(answer: Answer) -> Response:
    headers = {"etag": answer.etag, "cache-control": "no-store"}
    return Response(answer.body, 200, headers, "application/json")


def _wait_s(request: Request) -> float:
    given = request.query_params.get("wait", "0")
    try:
        wait = float(given)
    except ValueError:
        wait = math.nan
    if not 0 <= wait <= LONGEST_WAIT_S:
        raise Invalid(
            f"wait is {given[:32]}, which is no time from 0 to {LONGEST_WAIT_S:g} s",
            f"ask with ?wait={LONGEST_WAIT_S:g} and again after each answer",
        )
    return wait


async def _disconnected(receive: Receive) -> None:
    """Ends when the caller has gone, or sends more than is read of it."""
    message: Message = {"type": "http.request"}
    with suppress(BodyTooLarge):
        while message["type"] != "http.disconnect":
            message = await receive()


async def _body(request: Request, kind: type[M]) -> M:
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(errors) from error
