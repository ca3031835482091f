"""Whose turn it is at the database: requests take a connection one after another, in the order they came.

A pool alone lets a request that just came overtake those that wait, and refuses whoever had no luck for a few
seconds, however well the database works. Here a request waits for as long as others end well before it; that
nothing ends is what a database that is away looks like, and then the wait is short.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from registry.errors import Refusal, Unavailable

# Nothing ended well for so long: the database is away. With what follows, a refusal is there within 3 s.
PATIENCE_S = 2.5
# The longest wait while others end well; clients wait for an answer for 30 s.
LONGEST_S = 20.0
# Of the connections of a pool, these are for the loops that run beside the requests.
FOR_LOOPS = 5


class Turns:
    """`connections`: of the pool. The loops find some of them free however many requests wait."""

    def __init__(
        self, connections: int, patience_s: float = PATIENCE_S, longest_s: float = LONGEST_S
    ) -> None:
        self._free = max(1, connections - max(1, connections // FOR_LOOPS))
        self._patience_s = patience_s
        self._longest_s = longest_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ended_well_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises Unavailable."""
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait()
        try:
            yield
            self._ended_well_at = monotonic()
        except Refusal:
            # The database did its part.
            self._ended_well_at = monotonic()
            raise
        finally:
            self._pass_on()

    async def _wait(self) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        begun = monotonic()
        try:
            while not mine.done():
                until = min(max(begun, self._ended_well_at) + self._patience_s, begun + self._longest_s)
                left = until - monotonic()
                if left <= 0:
                    raise Unavailable(
                        "every connection to the database is busy, and none became free in time",
                        "try again shortly; SLIPWAY_DATABASE_POOL says how many there are",
                        retry_after_s=1,
                    )
                await asyncio.wait({mine}, timeout=left)
        except BaseException:
            if mine.done():
                self._pass_on()
            else:
                self._waiting.remove(mine)
            raise

    def _pass_on(self) -> None:
        """To who waits for longest; else it is free."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._free += 1

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)
