"""Wake-ups for workers: Celery messages by task name, best effort. The rows are the truth."""

import asyncio
import logging
import time
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor

from celery import Celery
from kombu.exceptions import OperationalError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from registry.settings import Settings

log = logging.getLogger(__name__)

VERIFY = "slipway.verify"
BUILD = "slipway.build"
TIMEOUT_S = 2
# After a failure nothing is sent for this long: threads that wait for a dead broker help nobody.
PAUSE_S = 2
# Of a task, from which each next level of the broker's begins. The broker has ten levels, and takes from 0
# first.
LEVELS = (-49, -19, -4, 0, 1, 5, 20, 50)


def level_of(priority: int) -> int:
    """Where a task waits: the higher its priority, the lower its level."""
    return len(LEVELS) - bisect_right(LEVELS, priority)


class Broker:
    """A lost message costs time, never work: the sweep sends another one."""

    def __init__(self, settings: Settings) -> None:
        self._threads = ThreadPoolExecutor(2, "broker")
        self._quiet_until = 0.0
        self._url = settings.redis_url.get_secret_value()
        self._celery = Celery("registry", broker=self._url)
        self._celery.conf.update(
            task_ignore_result=True,
            broker_connection_retry_on_startup=False,
            broker_transport_options={
                "socket_timeout": TIMEOUT_S,
                "socket_connect_timeout": TIMEOUT_S,
                "max_retries": 0,
                "priority_steps": list(range(len(LEVELS) + 1)),
            },
            task_publish_retry=False,
        )

    async def wake(self, name: str, task_id: str, queue: str, priority: int = 0) -> bool:
        """False when the message could not be handed over; that is logged, never raised."""
        if time.monotonic() < self._quiet_until:
            return False

        def work() -> None:
            self._celery.send_task(name, args=[task_id], queue=queue, priority=level_of(priority))

        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().run_in_executor(self._threads, work), TIMEOUT_S * 2
            )
        except (OperationalError, OSError, TimeoutError) as error:
            log.warning(
                "wake-up of %s for %s not sent: %s; the sweep will send it again", name, task_id, error
            )
            self._quiet_until = time.monotonic() + PAUSE_S
            return False
        return True

    async def probe(self) -> str:
        """`ok`, or what kind of thing is wrong; within `TIMEOUT_S` seconds."""
        client = Redis.from_url(
            self._url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            async with asyncio.timeout(TIMEOUT_S), client:
                await client.ping()
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("broker: %s", error or "no answer in time")
            return f"no connection: {type(error).__name__}"
        return "ok"

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._celery.close()
