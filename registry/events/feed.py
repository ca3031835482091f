"""What streams are fed from: one reader a process, the newest events in memory, and pages from the log.

A stream asks for what comes after the last event that it sent. Nobody queues for it, so a slow one costs
nothing and misses nothing; and while it waits it holds no database session.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from registry.contract.events import Event, EventId
from registry.database import Database
from registry.events import repository, represent
from registry.events.filters import Filter
from registry.listen import Channel, Listener, Waiters
from registry.tables.events import EventRow

log = logging.getLogger(__name__)

REMEMBERED = 2000
PAGE = 500
RETRY_S = 0.5
EVERYTHING = Filter()
ALL = ""


class Feed:
    """`waiters` are woken when there is more. The memory holds all events within (`_floor`, `_newest`]."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: deque[tuple[EventId, Event]] = deque()
        self._floor: EventId | None = None
        self._newest: EventId | None = None
        self._work = asyncio.Event()
        self.waiters = Waiters()

    def subscribe(self, listener: Listener) -> None:
        listener.subscribe(Channel.EVENTS, lambda _: self._work.set(), self._work.set)

    async def run(self) -> None:
        """For ever: follows the notices, and looks by itself where one may have been lost."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._read()
            except (SQLAlchemyError, OSError) as error:
                log.warning("streams wait: %s", error)
                await asyncio.sleep(RETRY_S)
                self._work.set()

    async def _read(self) -> None:
        async with self._database.session() as session:
            _, newest = await repository.bounds(session)
            if self._newest is None:
                self._floor = self._newest = newest
            if self._newest == newest:
                return
            while self._newest < newest:
                rows = await repository.events(session, self._newest, newest, PAGE, EVERYTHING)
                self._recent.extend((_id(row), represent.event(row)) for row in rows)
                self._newest = _id(rows[-1]) if len(rows) == PAGE else newest
                self._trim()
        self.waiters.wake_all()

    def _trim(self) -> None:
        while len(self._recent) > REMEMBERED:
            self._floor, _ = self._recent.popleft()

    async def after(self, seen: EventId) -> tuple[Sequence[Event], EventId]:
        """Events after `seen`, oldest first, at most a page; and how far these go. Empty: wait for more."""
        if self._floor is not None and self._floor <= seen:
            return self._remembered(seen)
        async with self._database.session() as session:
            _, newest = await repository.bounds(session)
            rows = await repository.events(session, seen, newest, PAGE, EVERYTHING)
        return [represent.event(row) for row in rows], _id(rows[-1]) if rows else seen

    def _remembered(self, seen: EventId) -> tuple[Sequence[Event], EventId]:
        """From the newest end: that is where most streams are."""
        found = []
        for each in reversed(self._recent):
            if each[0] <= seen:
                break
            found.append(each)
        page = found[::-1][:PAGE]
        return [event for _, event in page], page[-1][0] if page else seen


def _id(row: EventRow) -> EventId:
    return EventId(row.timeline, row.number)
