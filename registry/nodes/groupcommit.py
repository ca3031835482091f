"""Group commit: what arrives within a few milliseconds is one statement, and answered once it is safe."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from sqlalchemy.exc import DBAPIError

T = TypeVar("T")
R = TypeVar("R")

LARGEST = 500
DEADLOCK = "40P01"
CALLERS_FAULTS = ("21", "22", "23", "42")


class GroupCommit(Generic[T, R]):
    """`write` stores many items in one statement and gives one result each, in order.

    Two items of one `key` never share a statement; they are written in the order of their arrival. An item
    that makes a statement fail is found by writing each one alone: it fails, its batch-mates do not.
    """

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        key: Callable[[T], Hashable],
        gather_s: float,
    ) -> None:
        self._write = write
        self._key = key
        self._gather_s = gather_s
        self._queue: list[tuple[T, asyncio.Future[R]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Returns after the commit. Raises what the statement raised for this item."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        """Writes what is queued."""
        if self._writing is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing

    async def _drain(self) -> None:
        while self._queue:
            await asyncio.sleep(self._gather_s)
            batch = self._take()
            try:
                results = await self._write([item for item, _ in batch])
            except DBAPIError as error:
                if len(batch) > 1 and _may_be_one_items_fault(error):
                    await self._one_by_one(batch)
                else:
                    _fail(batch, error)
            except Exception as error:
                _fail(batch, error)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():
                        future.set_result(result)

    def _take(self) -> list[tuple[T, asyncio.Future[R]]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        rest, keys = [], set()
        for item, future in self._queue:
            key = self._key(item)
            if key in keys or len(batch) == LARGEST:
                rest.append((item, future))
            else:
                keys.add(key)
                batch.append((item, future))
        self._queue = rest
        return batch

    async def _one_by_one(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        for item, future in batch:
            try:
                (result,) = await self._write([item])
            except Exception as error:
                _fail([(item, future)], error)
            else:
                if not future.done():
                    future.set_result(result)


def _may_be_one_items_fault(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None) or ""
    return state == DEADLOCK or state[:2] in CALLERS_FAULTS


def _fail(batch: list[tuple[T, asyncio.Future[R]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
