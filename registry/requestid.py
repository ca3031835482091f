"""Raw ASGI: gives every request an id (kept from upstream), and bounds the size of bodies."""

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.contract.problems import Problem, ProblemType

GOOD_ID = re.compile(rb"^[A-Za-z0-9._:/+=-]{1,128}$")


class BodyTooLarge(Exception):
    pass


class RequestId:
    """The id is in `scope["slipway.request_id"]` and on the answer as `x-request-id`."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._max = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if GOOD_ID.match(given) else f"req_{uuid.uuid4().hex}"
        scope["slipway.request_id"] = request_id
        read, begun = 0, False

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._max:
                raise BodyTooLarge
            return message

        async def with_id(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            length = headers.get(b"content-length", b"0")
            if length.isdigit() and int(length) > self._max:
                raise BodyTooLarge
            await self._app(scope, bounded, with_id)
        except BodyTooLarge:
            if begun:
                raise
            await self._refuse(request_id, with_id)

    async def _refuse(self, request_id: str, send: Send) -> None:
        problem = Problem(
            type=f"/problems/{ProblemType.TOO_LARGE}",
            title="Too large",
            status=413,
            detail=f"the body is larger than {self._max} bytes",
            hint="files are uploaded by POST /v1/uploads, not inside other requests",
            request_id=request_id,
        )
        headers = [(b"content-type", b"application/problem+json")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": problem.model_dump_json().encode()})
