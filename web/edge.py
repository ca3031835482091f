"""Raw ASGI around every page: a request id, a bound on bodies, and the headers that keep a page to itself."""

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024
GOOD_ID = re.compile(rb"^[A-Za-z0-9._:/+=-]{1,128}$")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Edge:
    """The id is in `scope["slipway.request_id"]`, on the answer, and on every call that the page makes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if GOOD_ID.match(given) else f"req_{uuid.uuid4().hex}".encode()
        scope["slipway.request_id"] = request_id.decode()

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS, (b"x-request-id", request_id)]
            await send(message)

        if scope["method"] == "POST":
            length = headers.get(b"content-length", b"")
            if not length.isdigit():
                await _refuse(guarded, 411, "A form is sent with its Content-Length, as browsers do.")
                return
            if int(length) > MAX_BODY_BYTES:
                await _refuse(guarded, 413, f"The form exceeds {MAX_BODY_BYTES} bytes. Shorten the text.")
                return
        await self._app(scope, receive, guarded)


async def _refuse(send: Send, status: int, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})
