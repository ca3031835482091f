"""A stream of server-sent events, as raw ASGI: bounded, alive, and cut when its reader does not read.

Every event carries its id, and so does every sign of life, so a reader that was cut goes on where it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic

from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from registry.contract.events import EVENT, Event, EventId
from registry.errors import Refusal
from registry.events.feed import ALL, Feed
from registry.events.filters import Filter
from registry.requestid import BodyTooLarge

RETRY_MS = 1000
TAKE_S = 20.0
HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Ended(Exception):
    """The reader has gone, or does not read."""


class Stream(Response):
    """`still_allowed` is asked at every sign of life, and raises Refusal when the token has ended. A reader
    that takes nothing for `take_s` is cut."""

    media_type = "text/event-stream"

    def __init__(
        self,
        feed: Feed,
        after: EventId,
        wanted: Filter,
        heartbeat_s: float,
        still_allowed: Callable[[], Awaitable[object]],
        take_s: float = TAKE_S,
    ) -> None:
        super().__init__(headers=HEADERS)
        # The length of a stream is not known.
        del self.headers["content-length"]
        self._feed = feed
        self._seen = after
        self._wanted = wanted
        self._heartbeat_s = heartbeat_s
        self._still_allowed = still_allowed
        self._take_s = take_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_disconnected(receive))
        try:
            with suppress(Ended):
                await self._put(
                    send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                await self._go_on(send, gone)
                await self._put(send, {"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def _go_on(self, send: Send, gone: "asyncio.Task[None]") -> None:
        await self._write(send, f"retry: {RETRY_MS}\nid: {self._seen}\n\n".encode())
        with self._feed.waiters.register(ALL) as waiter:
            gone.add_done_callback(lambda _: waiter.wake())
            sign_at = monotonic() + self._heartbeat_s
            while not gone.done():
                try:
                    events, seen = await self._feed.after(self._seen)
                except (SQLAlchemyError, OSError):
                    # The reader comes back with its last id; another process may know more.
                    return
                wanted = [event for event in events if self._wanted.wants(event)]
                if wanted:
                    await self._write(send, b"".join(_event(event) for event in wanted))
                self._seen = seen
                if monotonic() >= sign_at:
                    sign_at = monotonic() + self._heartbeat_s
                    await self._write(send, f": still here\nid: {self._seen}\n\n".encode())
                    if not await self._allowed():
                        return
                if not events:
                    await waiter.wait(max(0.0, sign_at - monotonic()))

    async def _allowed(self) -> bool:
        try:
            await self._still_allowed()
        except (Refusal, SQLAlchemyError, OSError):
            return False
        return True

    async def _write(self, send: Send, chunk: bytes) -> None:
        await self._put(send, {"type": "http.response.body", "body": chunk, "more_body": True})

    async def _put(self, send: Send, message: Message) -> None:
        """Raises Ended."""
        try:
            async with asyncio.timeout(self._take_s):
                await send(message)
        except (TimeoutError, OSError) as error:
            raise Ended from error


def _event(event: Event) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        event.id.encode(),
        event.type.encode(),
        EVENT.dump_json(event),
    )


async def _disconnected(receive: Receive) -> None:
    """Ends when the reader has gone."""
    message: Message = {"type": "http.request"}
    with suppress(BodyTooLarge):
        while message["type"] != "http.disconnect":
            message = await receive()
