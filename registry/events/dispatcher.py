"""The dispatcher: one process publishes what was told, watches the clock, and has webhooks served.

Every process runs one; the lease on the database's clock decides whose works. It is woken by a notice after
each commit that told something; a look every second is the guarantee.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
from time import monotonic

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from registry.edge.resources import Resources
from registry.events import numbering, prune, queues, repository, watch
from registry.events.couriers import Couriers
from registry.listen import Channel, Listener

log = logging.getLogger(__name__)

LEASE_S = 5.0
EVERY_S = 1.0
COALESCE_S = 0.01
WATCH_EVERY_S = 1.0
PRUNE_EVERY_S = 60.0
PRUNED_AT_ONCE = 20


class Dispatcher:
    """`holding`: this process had the lease at its last look."""

    def __init__(self, resources: Resources, couriers: Couriers) -> None:
        self._resources = resources
        self._settings = resources.settings
        self._database = resources.database
        self._couriers = couriers
        self._name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._work = asyncio.Event()
        self._renewed = 0.0
        self._hearing_since = monotonic()
        self._watched = 0.0
        self._pruned = monotonic()
        self.holding = False

    def subscribe(self, listener: Listener) -> None:
        listener.subscribe(Channel.OUTBOX, lambda _: self._work.set(), self._work.set)
        self._couriers.on_free = self._work.set

    async def herald(self) -> None:
        """For ever: wakes the dispatcher, here or in another process, after commits of this one."""
        told = self._database.told.told
        while True:
            await told.wait()
            # Commits that come together are told together.
            await asyncio.sleep(COALESCE_S)
            told.clear()
            if self.holding:
                self._work.set()
                continue
            try:
                async with self._database.engine.connect() as connection:
                    await connection.execution_options(isolation_level="AUTOCOMMIT")
                    await connection.execute(select(func.pg_notify(Channel.OUTBOX, "")))
            except (SQLAlchemyError, OSError) as error:
                log.warning("the dispatcher was not woken, it looks by itself soon: %s", error)

    async def run(self) -> None:
        """For ever. What fails is tried again at the next look."""
        wait_s = 0.0
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._work.wait()
                self._work.clear()
                try:
                    wait_s = await self._look()
                except (SQLAlchemyError, OSError) as error:
                    log.warning("events wait: %s", error)
                    self.holding = False
                    wait_s = EVERY_S
        finally:
            await asyncio.shield(self._stop())

    async def _stop(self) -> None:
        await self._couriers.close()
        with contextlib.suppress(SQLAlchemyError, OSError, TimeoutError):
            async with asyncio.timeout(1), self._database.session() as session, session.begin():
                await repository.release(session, self._name)

    async def _look(self) -> float:
        """One round; how many seconds until the next one."""
        if not await self._held():
            return EVERY_S
        while (published := await self._publish()) is not None and published.more:
            pass
        if published is None:
            self.holding = False
            return EVERY_S
        await self._watch()
        wait_s = await self._deliver()
        await self._prune()
        return min(EVERY_S, wait_s)

    async def _held(self) -> bool:
        if self.holding and monotonic() - self._renewed < LEASE_S / 4:
            return True
        began = monotonic()
        async with self._database.session() as session, session.begin():
            held = await repository.hold(session, self._name, LEASE_S)
        if held and not self.holding:
            # A new holder has not heard the nodes yet; nor has one that was cut off.
            self._hearing_since = began
            log.info("%s publishes events", self._name)
        self.holding, self._renewed = held, began
        return held

    async def _publish(self) -> numbering.Published | None:
        async with self._database.session() as session, session.begin():
            return await numbering.publish(session, self._name)

    async def _watch(self) -> None:
        if monotonic() - self._watched < WATCH_EVERY_S:
            return
        self._watched = monotonic()
        stale_s = self._settings.node_stale_s
        async with self._database.session() as session, session.begin():
            if await repository.dispatch(session, self._name) is None:
                return
            await watch.rollbacks(session, stale_s)
            if monotonic() - self._hearing_since > stale_s:
                await watch.nodes(session, stale_s)

    async def _deliver(self) -> float:
        """Sends couriers to the queues that are due; seconds until the next one is."""
        async with self._database.session() as session:
            waiting = await queues.waiting(session)
        later = self._couriers.serve(waiting)
        return max(0.01, min(later, default=EVERY_S))

    async def _prune(self) -> None:
        if monotonic() - self._pruned < PRUNE_EVERY_S:
            return
        self._pruned = monotonic()
        for _ in range(PRUNED_AT_ONCE):
            async with self._database.session() as session, session.begin():
                await watch.forget(session)
                if await prune.prune(session, self._settings.events_keep_s) < prune.BATCH:
                    return
