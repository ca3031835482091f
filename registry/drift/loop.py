"""Keeps the windows up to date where no release is judged; a judge rolls up what it looks at itself."""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError

from registry.database import Database
from registry.drift.rollup import pending, roll_up

log = logging.getLogger(__name__)


class RollUps:
    """Several processes may run it: each takes what no other holds."""

    def __init__(self, database: Database, every_s: float) -> None:
        self._database = database
        self._every_s = every_s

    async def run(self) -> None:
        """For ever. What fails is tried again the next time; nothing is lost by that."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("counters not rolled up: %s", error)

    async def look(self) -> None:
        """One round over all deployments that nobody judges."""
        async with self._database.session() as session:
            waiting = await pending(session, judged=False)
        for deployment in waiting:
            async with self._database.session() as session, session.begin():
                await roll_up(session, deployment)
