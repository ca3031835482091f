"""A process dies by kill -9 between commit and delivery: nothing is lost, skipped, or sent by two at once."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import pairwise

import httpx

from registry.client import AsyncClient, events
from registry.contract.events import Event, PinChanged, parse_event_id
from registry.contract.webhooks import DeliveryState
from registry.settings import Settings
from slipway.stack import StackAddresses
from tests import patience
from tests.registry.conftest import ADMIN, Registry, serving
from tests.registry.events import telling
from tests.registry.events.receiver import Receiver
from tests.registry.support import run_sql

FAST = {
    "SLIPWAY_ADMIN_TOKEN": ADMIN,
    "SLIPWAY_WEBHOOK_NETWORKS": "127.0.0.0/8",
    "SLIPWAY_WEBHOOK_FIRST_RETRY_S": "0.05",
    "SLIPWAY_WEBHOOK_LONGEST_RETRY_S": "0.2",
}


@asynccontextmanager
async def process(addresses: StackAddresses) -> AsyncIterator[tuple[str, int]]:
    """A whole server of its own: its URL and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "slipway.server", "--port", str(port)]
    environment = {"PATH": os.environ["PATH"], **addresses.environment(), **FAST}
    started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(60), patience.async_client() as http:
            while True:
                with suppress(httpx.TransportError):
                    if (await http.get(f"{url}/readyz")).status_code == 200:
                        break
                await telling.pause()
        yield url, started.pid
    finally:
        started.kill()
        started.wait()


async def follow(client: AsyncClient, seen: list[Event], after: str) -> None:
    async with aclosing(events.follow_async(client, after)) as told:  # type: ignore[type-var]
        async for event in told:
            seen.append(event)  # noqa: PERF401 - it never ends


async def test_a_killed_process_loses_nothing_and_nothing_is_sent_by_two(
    addresses: StackAddresses, settings: Settings, receiver: Receiver
) -> None:
    receiver.delay_s = 0.02
    seen: list[Event] = []
    async with process(addresses) as (url, pid), serving(settings) as other_url:
        dying, living = AsyncClient(url, ADMIN), AsyncClient(other_url, ADMIN)
        registry = Registry(other_url, settings, living, [])
        assert await run_sql(registry, "SELECT holder IS NOT NULL FROM dispatch") == [(True,)]
        (holder,) = await run_sql(registry, "SELECT holder FROM dispatch")
        await telling.make_deployments(registry, "a", "b")
        made = await telling.subscribe(registry, receiver.url)
        following = asyncio.create_task(follow(dying, seen, "1-0"))
        await asyncio.gather(telling.pin(dying, "a", 3), telling.pin(living, "b", 3))
        await telling.deliveries(registry, made.webhook.id, DeliveryState.DELIVERED, 12)
        await telling.until(lambda: len(seen) == 12)
        receiver.stop()
        await telling.pin(dying, "a", 2, begin=3)
        os.kill(pid, signal.SIGKILL)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        following = asyncio.create_task(follow(living, seen, seen[-1].id))
        await telling.pin(living, "a", 2, begin=5)
        await telling.pin(living, "b", 1, begin=3)
        await telling.logged(registry, PinChanged, 22)
        assert await run_sql(registry, "SELECT holder FROM dispatch") != [holder], "another one took over"
        receiver.start()
        await telling.deliveries(registry, made.webhook.id, DeliveryState.DELIVERED, 22)
        await telling.until(lambda: len(seen) >= 22)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        log = await telling.log(registry)
        for client in (dying, living):
            await client.close()
    assert [parse_event_id(event.id).number for event in log] == list(range(1, 23))
    assert [event.id for event in seen] == [event.id for event in log], "the stream skips and repeats nothing"
    for name, reasons in {"a": "0123456", "b": "0123"}.items():
        assert telling.reasons([got.event for got in receiver.taken()], name) == list(reasons)
    assert sorted(got.event.id for got in receiver.got) == sorted(event.id for event in log), "each once"
    queues = defaultdict(list)
    for got in receiver.got:
        queues[got.event.deployment].append(got)
    for queue in queues.values():
        assert all(one.ended <= next_.began for one, next_ in pairwise(queue)), "one at a time in a queue"
