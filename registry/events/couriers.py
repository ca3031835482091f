"""Couriers: each serves one queue, event by event in order, until it is empty or an attempt fails.

The claim of an attempt outlives the attempt, so no other process sends the same event meanwhile, not even
after this one has lost the dispatcher's lease. A process that dies leaves its claims to run out.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from registry.contract.events import EVENT
from registry.contract.webhooks import WebhookState
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.events import queues, represent
from registry.events.backoff import pause_s
from registry.events.queues import Claimed, Queue, Waiting
from registry.events.sender import Sender
from registry.identity import Identity
from registry.tables.events import WebhookRow

log = logging.getLogger(__name__)

COURIER = replace(SYSTEM, name="webhooks")
MOST = 8
MOST_PER_WEBHOOK = 4
CLAIM_MARGIN_S = 2.0


def message_id(webhook_id: str, event_id: object) -> str:
    """The same for every attempt and replay, and for no other event or webhook anywhere."""
    return f"{webhook_id}_{event_id}"


class Couriers:
    """`on_free` is called when a queue has been left."""

    def __init__(self, resources: Resources, identity: Identity, sender: Sender) -> None:
        self._resources = resources
        self._identity = identity
        self._settings = resources.settings
        self._sender = sender
        self._serving: dict[Queue, asyncio.Task[None]] = {}
        self.on_free: Callable[[], None] = lambda: None

    def serve(self, waiting: Iterable[Waiting]) -> list[float]:
        """Sends a courier to each queue that is due, as far as there are any; when the others will be."""
        busy = Counter(webhook for webhook, _ in self._serving)
        later = []
        for each in waiting:
            webhook = each.queue[0]
            if each.queue in self._serving:
                continue
            if each.wait_s > 0:
                later.append(each.wait_s)
            elif len(self._serving) < MOST and busy[webhook] < MOST_PER_WEBHOOK:
                busy[webhook] += 1
                self._serving[each.queue] = asyncio.create_task(self._serve(each.queue))
        return later

    async def close(self) -> None:
        """Cuts what is under way; it is sent again by whoever comes next."""
        tasks = list(self._serving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, queue: Queue) -> None:
        try:
            while await self._one(queue):
                pass
        except (SQLAlchemyError, OSError) as error:
            log.warning("deliveries of %s wait: %s", queue[0], error)
        except Exception:
            log.exception("deliveries of %s failed", queue[0])
        finally:
            del self._serving[queue]
            self.on_free()

    async def _one(self, queue: Queue) -> bool:
        """True: delivered, so the next one may go."""
        claim_s = self._settings.webhook_timeout_s + CLAIM_MARGIN_S
        async with self._unit() as unit:
            claimed = await queues.claim(unit.session, queue, claim_s)
        if claimed is None:
            return False
        body = EVENT.dump_json(represent.event(claimed.event))
        outcome = await self._sender.send(claimed.target, message_id(queue[0], claimed.event_id), body)
        chance = random.random()  # noqa: S311 - jitter is no secret
        wait_s = pause_s(
            claimed.failures + 1,
            self._settings.webhook_first_retry_s,
            self._settings.webhook_longest_retry_s,
            chance,
        )
        async with self._unit() as unit:
            if outcome.gone:
                await _pause(unit, claimed)
            written = await queues.settle(
                unit.session, claimed, outcome, wait_s, self._settings.webhook_give_up_s
            )
        if not outcome.delivered:
            log.info("%s not delivered to %s: %s", claimed.event_id, queue[0], outcome.error)
        return outcome.delivered and written

    @asynccontextmanager
    async def _unit(self) -> AsyncIterator[Unit]:
        async with self._resources.database.session() as session, session.begin():
            yield Unit(session, self._resources, self._identity, COURIER, via="webhooks")


async def _pause(unit: Unit, claimed: Claimed) -> None:
    """The receiver wants nothing more; what is pending waits for a person."""
    query = select(WebhookRow).where(WebhookRow.id == claimed.queue[0]).with_for_update()
    row = (await unit.session.execute(query)).scalar_one_or_none()
    if row is None or row.state == WebhookState.PAUSED:
        return
    before = represent.webhook(row)
    row.state = WebhookState.PAUSED
    row.state_reason = f"the receiver answered 410 to {claimed.event_id}: it wants no more"
    await unit.session.flush()
    unit.audit("webhook.pause", f"webhook:{row.id}", before, represent.webhook(row), row.state_reason)
