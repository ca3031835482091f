"""What still belongs to a generation that was replaced: when it is over, the worker says Drained.

A request belongs to the generation that routed it. Arms that keep a share finish theirs undisturbed; on arms
without one, what waits asks the new route at once, and what runs is cut after the drain limit.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from registry.contract.routes import Fence
from serving.gateway.batching import Lane
from serving.gateway.book import Book
from serving.gateway.faults import Cut


class Drain:
    """Waits until no request of `books` is open, then calls `done` once, in a later turn of the loop: after
    the last answer was written."""

    def __init__(
        self, fence: Fence, books: Iterable[Book], lanes: Sequence[Lane], done: Callable[[], None]
    ) -> None:
        self.fence = fence
        self._books = list(books)
        self._lanes = list(lanes)
        self._done = done
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self, limit_s: float) -> None:
        for book in self._books:
            book.on_empty = self._check
        if any(book.open for book in self._books):
            self._timer = asyncio.get_running_loop().call_later(limit_s, self._cut)
        self._check()

    def stop(self) -> None:
        """A newer generation waits for the same books now."""
        self._over = True
        self._release()

    def _check(self) -> None:
        if self._over or any(book.open for book in self._books):
            return
        self._over = True
        self._release()
        asyncio.get_running_loop().call_soon(self._done)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for book in self._books:
            book.on_empty = None

    def _cut(self) -> None:
        for lane in self._lanes:
            for work in [*lane.running, *lane.queued]:
                if not work.pinned:
                    work.fail(Cut())
