"""Queries on queues: who sends next, and what became of it. One queue sends one event at a time, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from sqlalchemy import and_, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.events import EventId
from registry.contract.webhooks import DeliveryState, WebhookState
from registry.events.sender import Outcome, Target
from registry.events.signing import in_force
from registry.tables.events import DeliveryRow, EventRow, QueueRow, WebhookRow

Queue: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Waiting:
    """`wait_s` ≤ 0: its next attempt is due."""

    queue: Queue
    wait_s: float


@dataclass(frozen=True)
class Claimed:
    """The head of a queue, to be sent by whoever holds `fence`. `failures`: attempts since a success."""

    queue: Queue
    fence: int
    failures: int
    target: Target
    event: EventRow

    @property
    def event_id(self) -> EventId:
        return EventId(self.event.timeline, self.event.number)


async def waiting(session: AsyncSession) -> list[Waiting]:
    """Queues with something pending for an active webhook, the longest due first."""
    now = func.clock_timestamp()
    ready_at = func.greatest(QueueRow.next_at, func.coalesce(QueueRow.claimed_until, QueueRow.next_at))
    pending = (
        select(DeliveryRow.number)
        .where(
            DeliveryRow.webhook_id == QueueRow.webhook_id,
            DeliveryRow.queue == QueueRow.deployment,
            DeliveryRow.state == DeliveryState.PENDING,
        )
        .exists()
    )
    query = (
        select(
            QueueRow.webhook_id, QueueRow.deployment, func.extract("epoch", ready_at - now).label("wait_s")
        )
        .join(WebhookRow, WebhookRow.id == QueueRow.webhook_id)
        .where(WebhookRow.state == WebhookState.ACTIVE, pending)
        .order_by(ready_at)
    )
    return [
        Waiting((row.webhook_id, row.deployment), float(row.wait_s)) for row in await session.execute(query)
    ]


async def claim(session: AsyncSession, queue: Queue, claim_s: float) -> Claimed | None:
    """None: someone else sends, it is not due, or nothing is pending."""
    now = func.clock_timestamp()
    taken = (
        await session.execute(
            update(QueueRow)
            .where(
                QueueRow.webhook_id == queue[0],
                QueueRow.deployment == queue[1],
                QueueRow.next_at <= now,
                or_(QueueRow.claimed_until.is_(None), QueueRow.claimed_until < now),
            )
            .values(claimed_until=now + timedelta(seconds=claim_s), fence=QueueRow.fence + 1)
            .returning(QueueRow.fence, QueueRow.failures)
            .execution_options(synchronize_session=False)
        )
    ).one_or_none()
    if taken is None:
        return None
    found = (
        await session.execute(
            select(EventRow, WebhookRow, now)
            .join(
                DeliveryRow,
                and_(DeliveryRow.timeline == EventRow.timeline, DeliveryRow.number == EventRow.number),
            )
            .join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
            .where(
                DeliveryRow.webhook_id == queue[0],
                DeliveryRow.queue == queue[1],
                DeliveryRow.state == DeliveryState.PENDING,
                WebhookRow.state == WebhookState.ACTIVE,
            )
            .order_by(DeliveryRow.timeline, DeliveryRow.number)
            .limit(1)
        )
    ).one_or_none()
    if found is None:
        await _leave(session, queue, taken.fence, taken.failures, 0.0)
        return None
    event, webhook, at = found
    target = Target(webhook.url, in_force(webhook, at))
    return Claimed(queue, taken.fence, taken.failures, target, event)


async def settle(
    session: AsyncSession, claimed: Claimed, outcome: Outcome, pause_s: float, give_up_s: float
) -> bool:
    """Writes what became of the attempt. False: the claim is another's by now, nothing was written.

    A failure makes the queue wait for `pause_s`; it gives the event up once that is `give_up_s` old.
    """
    held = (
        await session.execute(
            select(QueueRow.fence)
            .where(
                QueueRow.webhook_id == claimed.queue[0],
                QueueRow.deployment == claimed.queue[1],
                QueueRow.fence == claimed.fence,
            )
            .with_for_update()
        )
    ).scalar_one_or_none()
    if held is None:
        return False
    now = func.clock_timestamp()
    row = await _delivery(session, claimed)
    expired = await session.scalar(select(row.since < now - timedelta(seconds=give_up_s)))
    row.attempts += 1
    row.status, row.error, row.last_attempt_at = outcome.status, outcome.error, now
    failures, wait_s = claimed.failures + 1, pause_s
    if outcome.delivered:
        row.state, failures, wait_s = DeliveryState.DELIVERED, 0, 0.0
    elif expired and not outcome.gone:
        row.state, failures, wait_s = DeliveryState.DEAD, 0, 0.0
    await session.flush()
    await _leave(session, claimed.queue, claimed.fence, failures, wait_s)
    return True


async def _delivery(session: AsyncSession, claimed: Claimed) -> DeliveryRow:
    query = (
        select(DeliveryRow)
        .where(
            DeliveryRow.webhook_id == claimed.queue[0],
            DeliveryRow.timeline == claimed.event.timeline,
            DeliveryRow.number == claimed.event.number,
        )
        .with_for_update()
    )
    return (await session.execute(query)).scalar_one()


async def _leave(session: AsyncSession, queue: Queue, fence: int, failures: int, wait_s: float) -> None:
    await session.execute(
        update(QueueRow)
        .where(QueueRow.webhook_id == queue[0], QueueRow.deployment == queue[1], QueueRow.fence == fence)
        .values(
            claimed_until=None,
            failures=failures,
            next_at=func.clock_timestamp() + timedelta(seconds=wait_s),
        )
        .execution_options(synchronize_session=False)
    )


async def restart(session: AsyncSession, webhook_id: str, queues: Sequence[str] | None = None) -> None:
    """What is pending is due now, and its time begins anew. `queues` None: all of the webhook's."""
    deliveries = [DeliveryRow.webhook_id == webhook_id, DeliveryRow.state == DeliveryState.PENDING]
    own = [QueueRow.webhook_id == webhook_id, true()]
    if queues is not None:
        deliveries.append(DeliveryRow.queue.in_(queues))
        own.append(QueueRow.deployment.in_(queues))
    await session.execute(
        update(DeliveryRow)
        .where(*deliveries)
        .values(since=func.now())
        .execution_options(synchronize_session=False)
    )
    # The claim of an attempt that is under way stays: two must not send at once.
    await session.execute(
        update(QueueRow)
        .where(*own)
        .values(failures=0, next_at=func.now())
        .execution_options(synchronize_session=False)
    )
