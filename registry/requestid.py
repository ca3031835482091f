"""Raw ASGI: gives every request an id (kept from upstream), and bounds the size of headers and bodies."""

import math
import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry import logs
from registry.contract.problems import Problem, ProblemType

STREAMED = "/api/2.0/mlflow-artifacts/artifacts/"
# Several times what a browser or a proxy sends.
MAX_HEADER_BYTES = 32 * 1024
GOOD_ID = re.compile(rb"^[A-Za-z0-9._:/+=-]{1,128}$")


class BodyTooLarge(Exception):
    pass


def _is_streamed(scope: Scope) -> bool:
    """Files of MLflow's clients: their endpoint reads them piece by piece and bounds them itself."""
    return scope["method"] == "PUT" and str(scope["path"]).startswith(STREAMED)


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
        named = logs.request_id.set(request_id)
        read, begun = 0, False
        limit = math.inf if _is_streamed(scope) else self._max

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise BodyTooLarge
            return message

        async def with_id(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
                await self._refuse_headers(request_id, with_id)
                return
            length = headers.get(b"content-length", b"0")
            if length.isdigit() and int(length) > limit:
                raise BodyTooLarge
            await self._app(scope, bounded, with_id)
        except BodyTooLarge:
            if begun:
                raise
            await self._refuse(request_id, with_id)
        finally:
            logs.request_id.reset(named)

    async def _refuse(self, request_id: str, send: Send) -> None:
        await _answer(
            send,
            413,
            request_id,
            f"the body is larger than {self._max} bytes",
            "files are uploaded by POST /v1/uploads, not inside other requests",
        )

    async def _refuse_headers(self, request_id: str, send: Send) -> None:
        await _answer(
            send,
            431,
            request_id,
            f"the headers are larger than {MAX_HEADER_BYTES} bytes",
            "send what is long in the body; a browser's cookies for this host may need to be cleared",
        )


async def _answer(send: Send, status: int, request_id: str, detail: str, hint: str) -> None:
    problem = Problem(
        type=f"/problems/{ProblemType.TOO_LARGE}",
        title="Too large",
        status=status,
        detail=detail,
        hint=hint,
        request_id=request_id,
    )
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": problem.model_dump_json().encode()})
