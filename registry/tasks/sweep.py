"""The guarantee behind best effort: lost wake-ups are sent again, hopeless tasks fail, leavings go away."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from registry.edge import idempotency
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import Unavailable
from registry.identity import Identity
from registry.tables.tasks import TaskRow
from registry.tasks import orders, repository, service
from registry.uploads import service as uploads

log = logging.getLogger(__name__)

SWEEPER = replace(SYSTEM, name="sweep")
REPUBLISHED = 100
SETTLED = 100


class Sweep:
    """Safe to run in every process: each row is taken by one of them (SKIP LOCKED)."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self._resources = resources
        self._identity = identity

    async def run(self) -> None:
        """Until cancelled. A database or store that is away is waited for."""
        while True:
            try:
                await self.once()
            except (DBAPIError, PoolTimeout, Unavailable) as error:
                log.warning("sweep not finished: %s", error)
            except Exception:
                log.exception("sweep failed")
            await asyncio.sleep(self._resources.settings.sweep_every_s)

    async def once(self) -> None:
        await self._republish()
        await self._each(orders.exhaust_one)
        await self._each(uploads.expire_one)
        async with self._unit() as unit:
            await idempotency.forget_old(unit.session, self._resources.settings.idempotency_s)

    async def _republish(self) -> None:
        async with self._unit() as unit:
            rows = await repository.overdue(
                unit.session, self._resources.settings.republish_after_s, REPUBLISHED
            )
            for row in rows:
                unit.after_commit.append(self._wake(unit, row))

    def _wake(self, unit: Unit, row: TaskRow) -> Callable[[], Awaitable[None]]:
        return lambda: service.wake(unit, row)

    async def _each(self, one: Callable[[Unit], Awaitable[bool]]) -> None:
        """Row by row, each in a transaction of its own: one that fails keeps no other back for long."""
        for _ in range(SETTLED):
            async with self._unit() as unit:
                if not await one(unit):
                    return

    @asynccontextmanager
    async def _unit(self) -> AsyncIterator[Unit]:
        async with self._resources.database.session() as session:
            unit = Unit(session, self._resources, self._identity, caller=SWEEPER, via="sweep")
            async with session.begin():
                yield unit
        for action in unit.after_commit:
            await action()
