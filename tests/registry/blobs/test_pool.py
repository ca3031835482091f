"""Calls of the object store: bounded in number and time, and not repeated against a store that is away."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from registry.blobs.pool import PAUSE_S, StorePool
from registry.errors import Unavailable


@pytest.fixture
async def release() -> AsyncIterator[threading.Event]:
    """What silent calls wait for; the end of a test lets their threads go."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_silent_store_is_given_up_and_then_left_alone(release: threading.Event) -> None:
    pool, calls = StorePool(threads=2, limit_s=0.3), []

    def silent() -> None:
        calls.append(time.monotonic())
        release.wait()

    with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
        await pool.run(silent)
    for _ in range(20):
        with pytest.raises(Unavailable, match="no answer"):
            await pool.run(silent)
    assert len(calls) == 1, "who asks meanwhile is told at once"
    release.set()
    await asyncio.sleep(PAUSE_S + 0.1)
    assert await pool.run(lambda: "back") == "back"
    assert await pool.run(lambda: "and stays") == "and stays"
    pool.close()


async def test_no_more_wait_than_there_are_threads(release: threading.Event) -> None:
    pool = StorePool(threads=1, limit_s=30)
    first = asyncio.create_task(pool.run(release.wait))
    await asyncio.sleep(0.05)
    with pytest.raises(Unavailable, match="busy"):
        await pool.run(lambda: "too many")
    release.set()
    assert await first is True
    assert await pool.run(lambda: "free again") == "free again"
    pool.close()


async def test_a_refusal_is_no_absence() -> None:
    """The store answered: others may go on asking. What is no failure of the store is passed on."""
    pool = StorePool(threads=1, limit_s=5)

    def fail(error: Exception) -> None:
        raise error

    denied = ClientError({"Error": {"Code": "AccessDenied"}}, "HeadBucket")
    with pytest.raises(Unavailable, match="AccessDenied"):
        await pool.run(lambda: fail(denied))
    with pytest.raises(KeyError):
        await pool.run(lambda: fail(KeyError("ours")))
    assert await pool.run(lambda: "asked") == "asked"
    with pytest.raises(Unavailable):
        await pool.run(lambda: fail(EndpointConnectionError(endpoint_url="http://away")))
    with pytest.raises(Unavailable):
        await pool.run(lambda: "not asked")
    pool.close()
