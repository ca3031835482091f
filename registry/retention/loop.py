"""The collector by itself: one of all processes runs it, every so often."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from registry.contract.retention import GarbageCollect
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import Unavailable
from registry.identity import Identity
from registry.retention import collector, repository

log = logging.getLogger(__name__)

COLLECTOR = replace(SYSTEM, name="collector")
CHORE = "gc"
LOOKS_EVERY_S = 60.0


class Collecting:
    """Safe to run in every process."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self._resources = resources
        self._identity = identity
        self._every_s = resources.settings.gc_every_s

    async def run(self) -> None:
        """Until cancelled. A database or store that is away is waited for."""
        while True:
            await asyncio.sleep(min(LOOKS_EVERY_S, self._every_s))
            try:
                await self.when_due()
            except (DBAPIError, PoolTimeout, Unavailable) as error:
                log.warning("collection not finished: %s", error)

    async def when_due(self) -> None:
        """A whole collection, when the last one of any process was begun long enough ago."""
        if await self.is_due():
            await self._collect()

    async def is_due(self) -> bool:
        """True to one of all processes."""
        async with self.unit() as unit:
            return await repository.claim_chore(unit.session, CHORE, self._every_s)

    async def _collect(self) -> None:
        body = GarbageCollect()
        count = size = 0
        while True:
            found = await collector.collect(self.unit, body)
            count += len(found.garbage)
            size += sum(item.size or 0 for item in found.garbage)
            if found.cursor is None:
                break
            body = GarbageCollect(cursor=found.cursor)
        log.info("collected %d things, %d bytes", count, size)

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[Unit]:
        """One unit of work, in the collector's name."""
        async with self._resources.database.session() as session:
            unit = Unit(session, self._resources, self._identity, caller=COLLECTOR, via="collector")
            async with session.begin():
                yield unit
