"""Queries on webhooks and their deliveries."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, func, select, tuple_, update
from sqlalchemy import cast as as_type
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.events import EventId, parse_event_id
from registry.contract.webhooks import DeliveryState
from registry.tables.events import DeliveryRow, EventRow, WebhookRow


async def now(session: AsyncSession) -> datetime:
    """The database's clock."""
    moment: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return moment


async def webhook(session: AsyncSession, webhook_id: str, *, lock: bool = False) -> WebhookRow | None:
    query = select(WebhookRow).where(WebhookRow.id == webhook_id)
    if lock:
        query = query.with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def webhooks(
    session: AsyncSession,
    after: str | None,
    limit: int,
    environments: frozenset[str],
    models: frozenset[str],
) -> Sequence[WebhookRow]:
    """Oldest first, one more than `limit`. A scope that is not empty: only webhooks within it."""
    query = select(WebhookRow).order_by(WebhookRow.id).limit(limit + 1)
    if after is not None:
        query = query.where(WebhookRow.id > after)
    for column, scope in ((WebhookRow.environments, environments), (WebhookRow.models, models)):
        if scope:
            within = column.op("<@")(as_type(sorted(scope), JSONB))
            query = query.where(func.jsonb_array_length(column) > 0, within)
    return (await session.execute(query)).scalars().all()


async def deliveries(
    session: AsyncSession, webhook_id: str, state: DeliveryState | None, below: str | None, limit: int
) -> Sequence[tuple[DeliveryRow, EventRow]]:
    """Newest first, one more than `limit`. `below`: the id of an event."""
    query = (
        select(DeliveryRow, EventRow)
        .join(
            EventRow, and_(EventRow.timeline == DeliveryRow.timeline, EventRow.number == DeliveryRow.number)
        )
        .where(DeliveryRow.webhook_id == webhook_id)
        .order_by(DeliveryRow.timeline.desc(), DeliveryRow.number.desc())
        .limit(limit + 1)
    )
    if state is not None:
        query = query.where(DeliveryRow.state == state)
    if below is not None:
        bound = parse_event_id(below)
        query = query.where(
            tuple_(DeliveryRow.timeline, DeliveryRow.number) < tuple_(bound.timeline, bound.number)
        )
    return [(row[0], row[1]) for row in await session.execute(query)]


async def delivery(session: AsyncSession, webhook_id: str, event_id: EventId) -> DeliveryRow | None:
    """Locked."""
    query = (
        select(DeliveryRow)
        .where(
            DeliveryRow.webhook_id == webhook_id,
            DeliveryRow.timeline == event_id.timeline,
            DeliveryRow.number == event_id.number,
        )
        .with_for_update()
    )
    return (await session.execute(query)).scalar_one_or_none()


async def revive(session: AsyncSession, row: DeliveryRow) -> list[str]:
    """The queue that it is pending in again."""
    row.state, row.attempts, row.error = DeliveryState.PENDING, 0, ""
    await session.flush()
    return [row.queue]


async def revive_dead(session: AsyncSession, webhook_id: str, limit: int) -> list[str]:
    """The oldest dead ones, up to `limit`; the queue of each."""
    dead = (
        select(DeliveryRow.timeline, DeliveryRow.number)
        .where(DeliveryRow.webhook_id == webhook_id, DeliveryRow.state == DeliveryState.DEAD)
        .order_by(DeliveryRow.timeline, DeliveryRow.number)
        .limit(limit)
    )
    revived = await session.execute(
        update(DeliveryRow)
        .where(
            DeliveryRow.webhook_id == webhook_id,
            tuple_(DeliveryRow.timeline, DeliveryRow.number).in_(dead),
        )
        .values(state=DeliveryState.PENDING, attempts=0, error="")
        .returning(DeliveryRow.queue)
        .execution_options(synchronize_session=False)
    )
    return list(revived.scalars())
