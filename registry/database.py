"""The asynchronous engine and its sessions. One engine per process."""

import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util import greenlet_spawn

from registry.outbox import SIGNAL, Signal
from registry.settings import Settings
from registry.silence import Watch
from registry.turns import Turns

# A connection that is not to be had is a 503 within 3 s.
POOL_TIMEOUT_S = 2.5
CONNECT_TIMEOUT_S = 3
# What is sent on a connection must be acknowledged within this time: a machine that vanished says nothing.
TCP_USER_TIMEOUT_MS = 3000
TCP = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
}
# A connection that was used a moment ago is not asked whether it lives: that would be half of the traffic.
ASKED_AFTER_S = 2.0
# disk_full, io_error: it answers, and what is read is right, but it can't write.
NO_SPACE = ("53100", "58030")
FULL_FOR_S = 15.0
# Statements are prepared where they ask for it, not by how often they came: the plan of a search depends on
# what is searched for.
BY_REQUEST = 1_000_000_000


def driver_url(database_url: str) -> str:
    """`postgresql://…` as SQLAlchemy wants it for psycopg 3; the same URL serves sync and async."""
    scheme, _, rest = database_url.partition("://")
    if scheme.split("+")[0] not in ("postgresql", "postgres"):
        # Not a word of what it is: where the scheme is written wrongly, the password may be next.
        raise ValueError("DATABASE_URL must begin with postgresql://")
    return f"postgresql+psycopg://{rest}"


class Database:
    """`session()` gives a session of SQLAlchemy; `autocommit()` a connection of the driver, for use cases
    that are one statement. Requests ask for a turn first (`turns`).

    `told` is set whenever a session has told something to the outbox.
    """

    def __init__(self, settings: Settings) -> None:
        # A pooler between us and the database may not know what was prepared.
        self.prepares = settings.database_listen_url is None
        self._watch = Watch()
        self.engine: AsyncEngine = create_async_engine(
            driver_url(settings.database_url.get_secret_value()),
            pool_size=settings.database_pool,
            max_overflow=0,
            pool_timeout=POOL_TIMEOUT_S,
            # The one that was used last is the one that has prepared what is needed again.
            pool_use_lifo=True,
            connect_args={
                **TCP,
                "prepare_threshold": BY_REQUEST if self.prepares else None,
                "async_creator_fn": self._watch.connect,
            },
            # Values of a statement that failed would go to the log: hashes, bodies, whatever was sent.
            hide_parameters=True,
        )
        event.listen(self.engine.sync_engine, "checkout", self._check)
        event.listen(self.engine.sync_engine, "checkin", _note_idle)
        event.listen(self.engine.sync_engine, "handle_error", self._note_failure)
        self._full_at: float | None = None
        self.turns = Turns(settings.database_pool)
        self.told = Signal()
        self.session = async_sessionmaker(
            self.engine, expire_on_commit=False, class_=AsyncSession, info={SIGNAL: self.told}
        )

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Every statement is a transaction, and one message to the database. Raises what SQLAlchemy raises
        for a connection that is not to be had, and psycopg.Error."""
        held = await self.engine.raw_connection()
        try:
            connection: Any = held.driver_connection
            await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                # One that went back as it is would make no transactions any more.
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    await connection.set_autocommit(False)
                else:
                    await greenlet_spawn(held.invalidate)
        finally:
            await greenlet_spawn(held.close)

    @property
    def writes(self) -> bool:
        """False: it refused a write for want of space a moment ago. The loops write often enough to notice,
        and to notice that it is over."""
        return self._full_at is None or monotonic() - self._full_at > FULL_FOR_S

    def _note_failure(self, context: ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlstate", None) in NO_SPACE:
            self._full_at = monotonic()

    def _check(self, connection: Any, entry: ConnectionPoolEntry, _: object) -> None:
        """Raises DisconnectionError for a connection that was closed while nobody used it: the pool makes
        another one then. Raises psycopg.OperationalError at once where the database is silent."""
        driver: Any = entry.driver_connection
        if self._watch.silent:
            raise psycopg.OperationalError("the database does not answer")
        if driver.closed or _has_news(driver.fileno()):
            raise DisconnectionError("the server has closed this connection")
        if monotonic() - entry.info.get(_IDLE_SINCE, monotonic()) > ASKED_AFTER_S:
            try:
                self.engine.dialect.do_ping(connection)
            except psycopg.Error as error:
                raise DisconnectionError(str(error)) from error

    async def close(self) -> None:
        await self._watch.close()
        await self.engine.dispose()


_IDLE_SINCE = "idle since"


def _note_idle(_: object, entry: ConnectionPoolEntry) -> None:
    entry.info[_IDLE_SINCE] = monotonic()


def _has_news(socket: int) -> bool:
    """Something waits to be read though nothing was asked: the server says goodbye, or is gone."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
