"""The raw ASGI face of `handle`: reads the body within its limit, writes head and body at once."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from serving.gateway.exchange import CLOSE, Head, Response
from serving.gateway.handle import Handler
from serving.gateway.listener import EXTENSION, Caller
from serving.gateway.refusals import problem
from serving.gateway.settings import GatewaySettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TooLarge(Exception):
    pass


class CallerLeft(Exception):
    pass


class Application:
    """An ASGI 3 application for `http` scopes."""

    def __init__(self, handler: Handler, settings: GatewaySettings) -> None:
        self._handle = handler
        self._limit = settings.body_limit_bytes
        self._json_limit = settings.json_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        if scope["type"] != "http":
            raise ValueError(f"only http is spoken here, not {scope['type']}")
        # Taken out: a scope that holds its own cycle is garbage that only the collector finds.
        extension = scope.pop("extensions", {}).get(EXTENSION)
        caller: Caller | None = extension["caller"] if extension is not None else None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            body = caller.whole_body() if caller is not None else None
            if body is None:
                body = await self._body(headers, receive)
            self._check_size(headers, len(body))
        except CallerLeft:
            return
        except TooLarge as error:
            hint = "send fewer rows at once, and large tensors in the protocol's binary form"
            refusal = problem(413, str(error), hint)
            refusal.headers.append(CLOSE)
            if caller is None or not caller.answer(refusal):
                await _send(refusal, send)
            return
        client = scope.get("client")
        head = Head(
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            headers=headers,
            started=started,
            connection=caller.connection if caller is not None else None,
            client=client[0] if client else "",
        )
        response = await self._handle(head, body)
        if caller is None or not caller.answer(response):
            await _send(response, send)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """What is still coming in. Raises TooLarge as soon as it is known, CallerLeft."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._limit:
            raise TooLarge(f"the body has {int(length)} bytes and {self._limit} are taken")
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerLeft
            body += message.get("body", b"")
            if len(body) > self._limit:
                raise TooLarge(f"the body has more than {self._limit} bytes")
            if not message.get("more_body"):
                return bytes(body)

    def _check_size(self, headers: dict[bytes, bytes], size: int) -> None:
        """A large JSON body would hold the loop for everybody while it is parsed."""
        if size > self._limit:
            raise TooLarge(f"the body has {size} bytes and {self._limit} are taken")
        if size <= self._json_limit or not headers.get(b"content-type", b"").startswith(b"application/json"):
            return
        if b"inference-header-content-length" not in headers:
            raise TooLarge(f"the JSON body has {size} bytes and {self._json_limit} are taken")


async def _send(response: Response, send: Send) -> None:
    headers = [
        (b"content-type", response.media_type),
        (b"content-length", b"%d" % len(response.body)),
        *response.standing.headers,
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
