"""What runs beside the requests: loops for as long as the app lives, and errands after a commit."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)

Loop = Callable[[], Coroutine[None, None, None]]

AGAIN_AFTER_S = 1.0


@asynccontextmanager
async def running(*loops: Loop, again_after_s: float = AGAIN_AFTER_S) -> AsyncIterator[None]:
    """Starts them, and cancels them at the end of the block.

    A loop deals with the errors that it expects. One that ends by any other is logged and begun again: a
    process that answers and does half of its work would be worse than none. One that returns is done.
    """
    tasks = [asyncio.create_task(_kept_running(loop, again_after_s)) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kept_running(loop: Loop, again_after_s: float) -> None:
    while True:
        try:
            await loop()
            return
        except Exception:
            name = getattr(loop, "__qualname__", repr(loop))
            log.exception("%s failed; it begins again in %g s", name, again_after_s)
        await asyncio.sleep(again_after_s)


class Nudge:
    """Tells a loop of this process that there is work before its next look would find it."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    async def nudge(self) -> None:
        self._told.set()

    async def wait(self, limit_s: float) -> None:
        """Until the next nudge, or the limit."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), limit_s)
        self._told.clear()


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
