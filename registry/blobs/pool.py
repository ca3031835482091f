"""Threads for calls of the object store: few, their own, and never waited for without end.

A store that is away must fail only what needs it. Callers hold a database session while they wait, so at most
`threads` of them wait at a time, each for at most `limit_s`; after a failure the others are told at once, and
one call a second tries whether the store is back.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as StoreConnectionError

from registry.errors import Unavailable

T = TypeVar("T")

PATIENCE_S = 0.5
PAUSE_S = 1.0
HINT = "check S3_ENDPOINT_URL and that the store runs; try again shortly"


class StorePool:
    """`limit_s`: the longest that one call is waited for; its thread may need longer to give up."""

    def __init__(self, threads: int, limit_s: float) -> None:
        self._threads = ThreadPoolExecutor(threads, "object-store")
        self._free = asyncio.Semaphore(threads)
        self._limit_s = limit_s
        self._away_until = 0.0
        self._why = ""

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives. Raises Unavailable for a failure of the store; what else `work` raises."""
        try:
            await asyncio.wait_for(self._free.acquire(), PATIENCE_S)
        except TimeoutError:
            raise _unavailable(self._why or "all connections to it are busy") from None
        try:
            self._refuse_while_away()
            future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:
            self._free.release()
            raise
        future.add_done_callback(self._ended)
        try:
            made = await asyncio.wait_for(asyncio.shield(future), self._limit_s)
        except TimeoutError:
            raise self._is_away(f"no answer within {self._limit_s:g} s") from None
        except (HTTPClientError, StoreConnectionError) as error:
            raise self._is_away(str(error)) from error
        except (BotoCoreError, ClientError) as error:
            self._why = ""
            raise _unavailable(str(error)) from error
        self._why = ""
        return made

    def _ended(self, future: "asyncio.Future[T]") -> None:
        self._free.release()
        if not future.cancelled():
            # Who asked may have gone meanwhile; then nobody fetches the error.
            future.exception()

    def _refuse_while_away(self) -> None:
        now = time.monotonic()
        if self._why and now < self._away_until:
            raise _unavailable(self._why)
        # Where it was away, this call tries, and the others are told until it has an answer.
        self._away_until = now + self._limit_s

    def _is_away(self, why: str) -> Unavailable:
        self._why, self._away_until = why, time.monotonic() + PAUSE_S
        return _unavailable(why)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _unavailable(why: str) -> Unavailable:
    return Unavailable(f"the object store does not answer: {why}", HINT, retry_after_s=2)
