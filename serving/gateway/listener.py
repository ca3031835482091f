"""uvicorn's httptools protocol with the limits of a data plane.

The parser is llhttp's; what it doesn't bound is bounded here: size and number of headers, depth of a
pipeline, slow heads and bodies, Upgrade. It also tells a request when its caller is gone, which costs nothing
per request where the ASGI way costs a task.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from serving.gateway.exchange import CLOSE, Response
from serving.gateway.refusals import problem

HEADERS_LIMIT = 100
HEADER_BYTES_LIMIT = 16 * 1024
PIPELINE_LIMIT = 8
SLOW_S = 30.0
"""For one whole request, from its first byte to its last."""

LINGER_S = 2.0

EXTENSION = "slipway.connection"
CLOSE_LINE = b"connection: close\r\n"


@dataclass(slots=True)
class Caller:
    """One request's way back: the ASGI extension `slipway.connection` of its scope."""

    connection: "Listener"
    cycle: RequestResponseCycle

    def whole_body(self) -> bytes | None:
        """None while more of it is to come, which is waited for in the ASGI way."""
        cycle = self.cycle
        if cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def answer(self, response: Response) -> bool:
        """Head and body in one write, where ASGI has two and checks every header by two expressions. False:
        the caller doesn't read fast enough, and the ASGI way, which waits, has to be taken."""
        cycle = self.cycle
        transport = self.connection.transport
        if self.connection.flow.write_paused or cycle.disconnected:
            return False
        lines = [b"%b: %b\r\n" % header for header in response.headers]
        if CLOSE in response.headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            lines.append(CLOSE_LINE)
        head = b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n" % (
            STATUS_LINE[response.status],
            response.media_type,
            len(response.body),
            response.standing.lines,
            b"".join(lines),
        )
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        transport.write(head if cycle.scope["method"] == "HEAD" else head + response.body)
        cycle.message_event.set()
        if cycle.more_body:
            self.connection.linger()
        elif not cycle.keep_alive:
            transport.close()
        cycle.on_response()
        return True


class _Refused(Exception):
    """Raised within the parser's callbacks; httptools hands it on as a parser error."""


class Listener(HttpToolsProtocol):
    """One connection. `on_lost` belongs to the request that is being answered."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_lost: Callable[[], None] | None = None
        self.reading_since = 0.0
        """Since when a request is coming in, monotonic; 0 between requests."""
        self._header_bytes = 0
        self._refusal: tuple[int, str, str] | None = None
        self._lingering = False

    def data_received(self, data: bytes) -> None:
        if not self._lingering:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.reading_since = time.monotonic()
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._header_bytes += len(url)
        if self._header_bytes > HEADER_BYTES_LIMIT:
            self._refuse(431, "the address is too long", f"keep the head below {HEADER_BYTES_LIMIT} bytes")
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADER_BYTES_LIMIT or len(self.headers) >= HEADERS_LIMIT:
            self._refuse(
                431,
                "the head is too large",
                f"send at most {HEADERS_LIMIT} headers and {HEADER_BYTES_LIMIT} bytes of them",
            )
        # As the base class does it, without a second call for each header.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self._refuse(
                400, "Upgrade is not taken", "speak plain HTTP/1.1; HTTP/2 ends at the load balancer"
            )
        if len(self.pipeline) >= PIPELINE_LIMIT:
            self._refuse(400, "the pipeline is too deep", f"wait for answers after {PIPELINE_LIMIT} requests")
        super().on_headers_complete()
        self.scope["extensions"] = {EXTENSION: {"caller": Caller(self, self.cycle)}}

    def on_message_complete(self) -> None:
        self.reading_since = 0.0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        status, detail, hint = self._refusal or (400, msg, "send a well-formed HTTP/1.1 request")
        self.refuse_now(status, detail, hint)

    def refuse_now(self, status: int, detail: str, hint: str) -> None:
        """Writes the problem and closes, as nothing more on this connection can be told apart."""
        if self.transport.is_closing() or self._lingering:
            return
        response = problem(status, detail, hint)
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (
            response.media_type,
            len(response.body),
        )
        self.transport.write(STATUS_LINE[status] + head + response.body)
        self.linger()

    def linger(self) -> None:
        """Ends the connection, but reads on for a moment: closing with unread bytes resets it, and a reset
        takes the answer from a caller who is still sending."""
        if not self._lingering:
            self._lingering = True
            self.reading_since = 0.0
            self.transport.write_eof()
            self.flow.resume_reading()
            self.loop.call_later(LINGER_S, self.transport.close)

    def _refuse(self, status: int, detail: str, hint: str) -> None:
        self._refusal = (status, detail, hint)
        raise _Refused(detail)


async def watch_slow(connections: set[Any]) -> None:
    """Ends connections whose request doesn't arrive in time; runs as long as the server does."""
    while True:
        await asyncio.sleep(1)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, Listener) and 0 < connection.reading_since < now - SLOW_S:
                connection.refuse_now(408, f"no whole request within {SLOW_S:g} s", "send it faster")
