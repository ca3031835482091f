"""Notices between registry processes: PostgreSQL's LISTEN/NOTIFY on one direct connection, and waiters.

A notice is a nudge with a name in it; what it is about is read from the tables. One may be lost with its
connection, so subscribers are also told when they must doubt: at every reconnect, and every few seconds.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import sql

from registry.database import TCP

log = logging.getLogger(__name__)

DOUBT_EVERY_S = 5.0
ANSWER_TIMEOUT_S = 3
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


class Channel(StrEnum):
    """Payloads: routes and applied `<deployment id>:<generation>`; nodes `<node id>`; tokens (revoked
    ones) `<token id>`; events `<event id>`; outbox: none."""

    ROUTES = "slipway_routes"
    APPLIED = "slipway_applied"
    NODES = "slipway_nodes"
    TOKENS = "slipway_tokens"
    OUTBOX = "slipway_outbox"
    EVENTS = "slipway_events"


class Waiter:
    """One who waits. Register, read, wait, read again: what comes between read and wait isn't missed."""

    # A thousand of these wake together: a bare future costs a third of an event with a timeout.
    def __init__(self) -> None:
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._woken = True
        self._end()

    def _end(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float) -> bool:
        """True when woken, within `timeout_s` seconds; ready to wait again afterwards."""
        if not self._woken:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(timeout_s, self._end)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        woken, self._woken = self._woken, False
        return woken


class Waiters:
    """Who waits for what, in this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Waiter]] = {}

    @contextlib.contextmanager
    def register(self, key: str) -> Iterator[Waiter]:
        waiter = Waiter()
        self._waiting.setdefault(key, set()).add(waiter)
        try:
            yield waiter
        finally:
            waiting = self._waiting[key]
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[key]

    def wake(self, key: str) -> None:
        for waiter in self._waiting.get(key, ()):
            waiter.wake()

    def wake_all(self) -> None:
        for waiting in self._waiting.values():
            for waiter in waiting:
                waiter.wake()

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())


@dataclass(frozen=True)
class Subscription:
    """`on_notice` gets the payload; `on_doubt`: notices may have been lost, look at everything."""

    on_notice: Callable[[str], None]
    on_doubt: Callable[[], None]


class Listener:
    """`applied` wakes who waits for nodes' confirmations, by deployment id.

    `state` of the connection: `ok`, or what is wrong.
    """

    def __init__(self, database_url: str) -> None:
        scheme, _, rest = database_url.partition("://")
        self._url = f"{scheme.split('+')[0]}://{rest}"
        self._subscriptions: dict[Channel, Subscription] = {}
        self.state = "not connected yet"
        self.applied = Waiters()
        self.subscribe(Channel.APPLIED, lambda payload: self.applied.wake(key_of(payload)), self._doubt)

    def subscribe(
        self, channel: Channel, on_notice: Callable[[str], None], on_doubt: Callable[[], None]
    ) -> None:
        """Before `run`. Both are called on the loop and must not block."""
        self._subscriptions[channel] = Subscription(on_notice, on_doubt)

    async def run(self) -> None:
        """For ever. A lost connection is made again; while there is none, doubt comes with every attempt."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._url,
                    autocommit=True,
                    **TCP,  # type: ignore[arg-type]  # parameters of libpq
                ) as connection:
                    await self._listen(connection)
                    pause = FIRST_PAUSE_S
                    await self._relay(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                self.state = f"no connection: {type(error).__name__}"
                log.warning("listening for notices: %s; connecting again in %.1f s", error, pause)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)
            self._tell_doubt()

    async def _listen(self, connection: psycopg.AsyncConnection) -> None:
        for channel in self._subscriptions:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self.state = "ok"
        self._tell_doubt()

    async def _relay(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            async with contextlib.aclosing(connection.notifies(timeout=DOUBT_EVERY_S)) as notices:
                async for notice in notices:
                    self._subscriptions[Channel(notice.channel)].on_notice(notice.payload)
            # Proves that the connection lives; a half-open one would be silent for ever.
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await connection.execute("SELECT 1")
            self._tell_doubt()

    def _tell_doubt(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.on_doubt()

    def _doubt(self) -> None:
        self.applied.wake_all()


def key_of(payload: str) -> str:
    """The identity in a payload `<id>:<generation>`."""
    return payload.partition(":")[0]


def generation_of(payload: str) -> int:
    """The generation in a payload `<id>:<generation>`; 0 where there is none."""
    generation = payload.partition(":")[2]
    return int(generation) if generation.isdigit() else 0
