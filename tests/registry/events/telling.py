"""Cheap ways to make events, and to wait for them."""

import asyncio
from collections.abc import Callable

from registry.client import AsyncClient, deployments, events
from registry.contract.deployments import DeploymentCreate, Pin
from registry.contract.events import Event, PinChanged
from registry.contract.webhooks import Delivery, DeliveryState, WebhookCreate, WebhookSecret
from tests.registry.conftest import Registry
from tests.registry.support import make_model


async def make_deployments(registry: Registry, *names: str) -> None:
    """prod/NAME, all of the model `animals`."""
    await make_model(registry)
    for name in names:
        body = DeploymentCreate(environment="prod", name=name, model="animals")
        await registry.client(deployments.create(body))


async def pin(client: AsyncClient, name: str, times: int = 1, begin: int = 0) -> None:
    """Twice `times` events in the queue of prod/NAME: pinned for the reason `begin`, …, and lifted."""
    for at in range(begin, begin + times):
        await pin_for(client, name, str(at))


async def pin_for(client: AsyncClient, name: str, reason: str) -> None:
    await client(deployments.pin(f"prod/{name}", Pin(reason=reason)))
    await client(deployments.unpin(f"prod/{name}"))


def reasons(told: list[Event], name: str) -> list[str]:
    """Of the pins of prod/NAME, in order."""
    return [
        event.data.reason
        for event in told
        if isinstance(event, PinChanged) and event.deployment == f"prod/{name}" and event.data.pinned
    ]


async def subscribe(registry: Registry, url: str, **wishes: object) -> WebhookSecret:
    body = WebhookCreate(url=url, **wishes)  # type: ignore[arg-type]
    return await registry.client(events.create_webhook(body))


async def log(registry: Registry, **wishes: object) -> list[Event]:
    page = await registry.client(events.page(limit=1000, **wishes))  # type: ignore[arg-type]
    return list(page.items)


def deadline() -> asyncio.Timeout:
    return asyncio.timeout(60)


async def pause() -> None:
    await asyncio.sleep(0.05)


async def until(holds: Callable[[], bool]) -> None:
    async with deadline():
        while not holds():
            await pause()


async def logged(registry: Registry, kind: type, count: int = 1) -> list[Event]:
    """Waits until so many events of a class are published; all of the log."""
    async with deadline():
        while True:
            told = await log(registry)
            if sum(isinstance(event, kind) for event in told) >= count:
                return told
            await pause()


async def deliveries(registry: Registry, webhook: str, state: DeliveryState, count: int) -> list[Delivery]:
    """Waits until so many deliveries are in a state; oldest first."""
    async with deadline():
        while True:
            page = await registry.client(events.deliveries(webhook, state, limit=1000))
            if len(page.items) >= count:
                return list(reversed(page.items))
            await pause()
