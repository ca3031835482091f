"""Retention: events that are old enough go, with what became of their deliveries, a few at a time."""

from datetime import timedelta

from sqlalchemy import delete, exists, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.webhooks import DeliveryState, WebhookState
from registry.tables.events import DeliveryRow, DispatchRow, EventRow, WebhookRow

BATCH = 1000


async def prune(session: AsyncSession, keep_s: float) -> int:
    """One batch; how many went. What an active webhook still waits for stays."""
    awaited = exists().where(
        DeliveryRow.timeline == EventRow.timeline,
        DeliveryRow.number == EventRow.number,
        DeliveryRow.state == DeliveryState.PENDING,
        WebhookRow.id == DeliveryRow.webhook_id,
        WebhookRow.state == WebhookState.ACTIVE,
    )
    old = (
        select(EventRow.timeline, EventRow.number)
        .where(EventRow.at < func.now() - timedelta(seconds=keep_s), ~awaited)
        .order_by(EventRow.timeline, EventRow.number)
        .limit(BATCH)
    )
    gone = (
        await session.execute(
            delete(EventRow)
            .where(tuple_(EventRow.timeline, EventRow.number).in_(old))
            .returning(EventRow.timeline, EventRow.number)
            .execution_options(synchronize_session=False)
        )
    ).all()
    if gone:
        timeline, number = max((row.timeline, row.number) for row in gone)
        await session.execute(
            update(DispatchRow)
            .where(tuple_(DispatchRow.pruned_timeline, DispatchRow.pruned_number) < tuple_(timeline, number))
            .values(pruned_timeline=timeline, pruned_number=number)
            .execution_options(synchronize_session=False)
        )
    return len(gone)
