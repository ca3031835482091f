"""What runs beside the requests: loops for as long as the app lives, and errands after a commit."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


@asynccontextmanager
async def running(*loops: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Starts them, and cancels them at the end of the block. A loop deals with its errors itself."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Errands:
    """Best-effort work whose failure changes no answer, and which no answer waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, actions: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Runs them one after another. One that raises is logged, and the next one runs."""
        if actions:
            task = asyncio.create_task(_each(actions))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self, limit_s: float) -> None:
        """Waits for what is under way, then cancels it."""
        if self._tasks:
            _done, late = await asyncio.wait(self._tasks, timeout=limit_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def _each(actions: Sequence[Callable[[], Awaitable[object]]]) -> None:
    for action in actions:
        try:
            await action()
        except Exception:
            log.exception("an errand after a commit failed")
