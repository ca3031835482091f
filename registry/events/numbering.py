"""Publishing: events get ids after the commit, by one process at a time, and go to the webhooks' queues.

An id taken inside the transaction of the change would be skipped by readers whenever a lower one commits
later. Here a row is numbered once it is visible, and whatever becomes visible later gets a higher number.
Within one deployment changes are serialised by its row's lock, so their order is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.events import EventId
from registry.contract.webhooks import DeliveryState
from registry.events import repository
from registry.events.filters import Filter
from registry.listen import Channel
from registry.tables.events import DeliveryRow, DispatchRow, EventRow, OutboxRow, QueueRow, WebhookRow
from registry.tables.registry import RegistryRow

BATCH = 500


@dataclass(frozen=True)
class Published:
    """`more`: the batch was full. `deliveries`: how many were made."""

    events: int
    deliveries: int

    @property
    def more(self) -> bool:
        return self.events == BATCH


async def publish(session: AsyncSession, holder: str) -> Published | None:
    """One batch, in the caller's transaction. None: `holder` has lost the lease, and nothing was done."""
    dispatch = await repository.dispatch(session, holder, lock=True)
    if dispatch is None:
        return None
    rows = (await session.execute(select(OutboxRow).order_by(OutboxRow.seq).limit(BATCH))).scalars().all()
    if not rows:
        return Published(0, 0)
    timeline = (await session.execute(select(RegistryRow.timeline))).scalar_one()
    numbered = [(EventId(timeline, dispatch.number + place), row) for place, row in enumerate(rows, 1)]
    await session.execute(
        insert(EventRow),
        [
            {
                "timeline": event.timeline,
                "number": event.number,
                "at": row.at,
                "type": row.type,
                "subject": row.subject,
                "deployment": row.deployment,
                "environment": row.environment,
                "model": row.model,
                "actor": row.actor,
                "data": row.data,
            }
            for event, row in numbered
        ],
    )
    deliveries = await _fan_out(session, numbered)
    await session.execute(
        delete(OutboxRow)
        .where(OutboxRow.seq.in_([row.seq for row in rows]))
        .execution_options(synchronize_session=False)
    )
    last = numbered[-1][0]
    await session.execute(
        update(DispatchRow)
        .values(timeline=last.timeline, number=last.number)
        .execution_options(synchronize_session=False)
    )
    await session.execute(select(func.pg_notify(Channel.EVENTS, str(last))))
    return Published(len(rows), deliveries)


async def _fan_out(session: AsyncSession, numbered: Sequence[tuple[EventId, OutboxRow]]) -> int:
    """A delivery for each webhook that wants an event. A paused one gets its deliveries too, for later."""
    # The lock keeps a webhook from being deleted under the deliveries that are made for it.
    query = select(WebhookRow).order_by(WebhookRow.id).with_for_update(read=True, key_share=True)
    webhooks = (await session.execute(query)).scalars().all()
    made = [
        {
            "webhook_id": webhook.id,
            "timeline": event.timeline,
            "number": event.number,
            "queue": row.deployment or "",
            "state": DeliveryState.PENDING,
        }
        for webhook in webhooks
        for event, row in numbered
        if wanted(webhook).wants(row)
    ]
    if made:
        queues = sorted({(each["webhook_id"], each["queue"]) for each in made})
        await session.execute(
            upsert(QueueRow).on_conflict_do_nothing(),
            [{"webhook_id": webhook, "deployment": queue} for webhook, queue in queues],
        )
        await session.execute(insert(DeliveryRow), made)
    return len(made)


def wanted(webhook: WebhookRow) -> Filter:
    return Filter(
        tuple(webhook.types),
        tuple(webhook.deployments),
        tuple(webhook.environments),
        tuple(webhook.models),
    )
