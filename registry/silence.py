"""A database that takes connections and says nothing: noticed within 3 s, so that nobody waits for it.

The kernel of a machine whose PostgreSQL is stopped goes on acknowledging what is sent, so neither TCP nor a
limit of the server's own helps; and a statement may rightly take long. So where one does, a connection of its
own asks whether anybody answers. If not, all that wait are cut off, and who comes is refused at once, until
somebody answers again.
"""

import asyncio
import logging
import os
import socket
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")

log = logging.getLogger(__name__)

ASK_AFTER_S = 1.0
ANSWERED_WITHIN_S = 1.5
LOOK_EVERY_S = 0.2


class Watch:
    """Of all connections of one process to one database. `silent`: it does not answer, as far as is known."""

    def __init__(self) -> None:
        self.silent = False
        self._waiting: dict[Watched, float] = {}
        self._heard_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._how: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    async def connect(self, *where: Any, **options: Any) -> "Watched":
        """As psycopg connects. Raises psycopg.OperationalError, at once where the database is silent."""
        if self.silent:
            raise psycopg.OperationalError("the database does not answer")
        self._how = (where, options)
        made = await Watched.connect(*where, **options)
        made.watch = self
        return made

    def began(self, connection: "Watched") -> None:
        """Something was sent on it that is to be answered."""
        self._waiting[connection] = monotonic()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def ended(self, connection: "Watched", *, heard: bool) -> None:
        self._waiting.pop(connection, None)
        if heard:
            self._heard_at = monotonic()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    async def _look(self) -> None:
        while self._waiting or self.silent:
            if self.silent or self._long():
                await self._ask()
            await asyncio.sleep(LOOK_EVERY_S if self._waiting else ASK_AFTER_S)

    def _long(self) -> list["Watched"]:
        """What waits for longer than is usual."""
        now = monotonic()
        return [connection for connection, began in self._waiting.items() if now - began > ASK_AFTER_S]

    async def _ask(self) -> None:
        asked_at = monotonic()
        # Waiting, not cancelling: what is cancelled may itself wait for a server that is silent.
        asking = asyncio.ensure_future(self._answer())
        done, _ = await asyncio.wait({asking}, timeout=ANSWERED_WITHIN_S)
        if not done:
            asking.cancel()
        was, self.silent = self.silent, not done and self._heard_at < asked_at
        if self.silent:
            for connection in self._long():
                connection.cut()
        if was != self.silent:
            log.warning("the database %s", "does not answer" if self.silent else "answers again")
        if done:
            # It is merely busy with something.
            await asyncio.sleep(ASK_AFTER_S)

    async def _answer(self) -> None:
        where, options = self._how
        try:
            connection = await psycopg.AsyncConnection.connect(*where, **options)
        except psycopg.Error:
            # A refusal is an answer: whoever waits will hear it too.
            return
        try:
            # A pooler between us and the database may take connections for it.
            await connection.execute("SELECT 1")
        except psycopg.Error:
            return
        finally:
            await connection.close()


class Watched(psycopg.AsyncConnection[Any]):
    """Tells its watch while it waits for an answer."""

    watch: Watch | None = None

    async def wait(self, gen: PQGen[T], *limits: Any, **more: Any) -> T:
        return await super().wait(self._told(gen, self.watch) if self.watch else gen, *limits, **more)

    def _told(self, gen: PQGen[T], watch: Watch) -> PQGen[T]:
        """The same steps. What ends with the first one has asked nothing."""
        try:
            wanted = next(gen)
        except StopIteration as end:
            made: T = end.value
            return made
        heard = False
        watch.began(self)
        try:
            while True:
                wanted = gen.send((yield wanted))
        except StopIteration as end:
            heard = True
            made = end.value
            return made
        finally:
            watch.ended(self, heard=heard)

    def cut(self) -> None:
        """Who waits gets psycopg.OperationalError. The descriptor itself stays libpq's."""
        if not self.closed:
            with socket.socket(fileno=os.dup(self.pgconn.socket)) as end:
                end.shutdown(socket.SHUT_RDWR)
