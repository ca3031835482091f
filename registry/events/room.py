"""What events keep in memory in one process, and their loops."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from registry import background
from registry.edge.resources import Resources
from registry.events.couriers import Couriers
from registry.events.dispatcher import Dispatcher
from registry.events.feed import Feed
from registry.events.sender import Sender
from registry.identity import Identity


@dataclass(frozen=True)
class EventRoom:
    feed: Feed
    sender: Sender


@contextlib.asynccontextmanager
async def running(resources: Resources, identity: Identity) -> AsyncIterator[EventRoom]:
    """Must be entered before `listener.run`, whose notices it follows."""
    settings = resources.settings
    sender = Sender(settings.webhook_timeout_s, settings.webhook_networks)
    feed = Feed(resources.database)
    feed.subscribe(resources.listener)
    dispatcher = Dispatcher(resources, Couriers(resources, identity, sender))
    dispatcher.subscribe(resources.listener)
    try:
        async with background.running(feed.run, dispatcher.run, dispatcher.herald):
            yield EventRoom(feed, sender)
    finally:
        await sender.close()
