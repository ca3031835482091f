"""Queries on events, and on the lease of the process that publishes them."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import any_, func, literal, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import Text

from registry.contract.events import EventId
from registry.events.filters import Filter
from registry.listen import Channel
from registry.tables.events import DispatchRow, EventRow

ID = tuple_(EventRow.timeline, EventRow.number)


async def hold(session: AsyncSession, holder: str, lease_s: float) -> bool:
    """Takes the lease where it is free, and renews it where it is `holder`'s, on the database's clock."""
    now = func.clock_timestamp()
    taken = await session.execute(
        update(DispatchRow)
        .where(
            or_(
                DispatchRow.holder.is_(None),
                DispatchRow.holder == holder,
                DispatchRow.held_until.is_(None),
                DispatchRow.held_until < now,
            )
        )
        .values(holder=holder, held_until=now + timedelta(seconds=lease_s))
        .returning(DispatchRow.singleton)
        .execution_options(synchronize_session=False)
    )
    return taken.first() is not None


async def release(session: AsyncSession, holder: str) -> None:
    """Lets another process take over at once."""
    await session.execute(
        update(DispatchRow)
        .where(DispatchRow.holder == holder)
        .values(holder=None, held_until=None)
        .execution_options(synchronize_session=False)
    )


async def dispatch(session: AsyncSession, holder: str, *, lock: bool = False) -> DispatchRow | None:
    """None: the lease is not `holder`'s any more."""
    query = select(DispatchRow).where(
        DispatchRow.holder == holder, DispatchRow.held_until > func.clock_timestamp()
    )
    if lock:
        query = query.with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def bounds(session: AsyncSession) -> tuple[EventId, EventId]:
    """(everything up to here is no longer kept, the newest id)."""
    row = (await session.execute(select(DispatchRow))).scalar_one()
    return EventId(row.pruned_timeline, row.pruned_number), EventId(row.timeline, row.number)


async def events(
    session: AsyncSession, after: EventId, upto: EventId, limit: int, wanted: Filter
) -> Sequence[EventRow]:
    """Oldest first, within (after, upto]."""
    query = (
        select(EventRow)
        .where(ID.between(tuple_(after.timeline, after.number + 1), tuple_(upto.timeline, upto.number)))
        .where(*_conditions(wanted))
        .order_by(EventRow.timeline, EventRow.number)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


def _conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    """`Filter.wants`, in SQL."""
    found = []
    if wanted.types:
        found.append(_matches(EventRow.type, wanted.types))
    if wanted.deployments:
        found.append(_matches(EventRow.deployment, wanted.deployments))
    for column, scope in ((EventRow.environment, wanted.environments), (EventRow.model, wanted.models)):
        if scope:
            found.append(or_(column.is_(None), column == any_(literal(list(scope), ARRAY(Text)))))
    return found


def _matches(
    column: InstrumentedAttribute[str] | InstrumentedAttribute[str | None], patterns: Sequence[str]
) -> ColumnElement[bool]:
    exact = [pattern for pattern in patterns if not pattern.endswith("*")]
    begins = [pattern[:-1] for pattern in patterns if pattern.endswith("*")]
    return or_(
        column == any_(literal(exact, ARRAY(Text))),
        *(column.startswith(begin, autoescape=True) for begin in begins),
    )


async def wake(session: AsyncSession) -> None:
    """There is something to do for the dispatcher, once this commits."""
    await session.execute(select(func.pg_notify(Channel.OUTBOX, "")))
