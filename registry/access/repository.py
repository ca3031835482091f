"""Queries on tokens."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from registry.listen import Channel
from registry.tables.access import TokenRow


async def token(session: AsyncSession, token_id: str) -> TokenRow | None:
    """Locked."""
    query = select(TokenRow).where(TokenRow.id == token_id).with_for_update()
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def tokens(
    session: AsyncSession,
    after: str | None,
    limit: int,
    models: Collection[str],
    environments: Collection[str],
) -> Sequence[TokenRow]:
    """Oldest first, one more than `limit`; only those whose scope lies within the given one."""
    query = (
        select(TokenRow)
        .where(_within(TokenRow.models, models), _within(TokenRow.environments, environments))
        .order_by(TokenRow.id)
        .limit(limit + 1)
    )
    if after is not None:
        query = query.where(TokenRow.id > after)
    return (await session.execute(query)).scalars().all()


def _within(scope: InstrumentedAttribute[list[object]], limits: Collection[str]) -> ColumnElement[bool]:
    if not limits:
        return and_(True)
    return and_(func.jsonb_array_length(scope) > 0, scope.contained_by(sorted(limits)))


async def session_end(session: AsyncSession, token_id: str, seconds: int) -> datetime | None:
    """When a session of this token ends: so many seconds from now, or with the token where that is earlier.

    None: the token was revoked meanwhile. It stays locked against that until the commit.
    """
    query = (
        select(func.least(func.now() + timedelta(seconds=seconds), TokenRow.expires_at))
        .where(TokenRow.id == token_id, TokenRow.revoked_at.is_(None))
        .with_for_update(read=True)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def revoke(session: AsyncSession, row: TokenRow) -> None:
    """Now, by the database's clock, with the sessions that were made from it."""
    await session.execute(
        update(TokenRow)
        .where(or_(TokenRow.id == row.id, TokenRow.created_by == row.id), TokenRow.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .execution_options(synchronize_session=False)
    )
    await session.execute(select(func.pg_notify(Channel.TOKENS, row.id)))
    await session.refresh(row, ["revoked_at"])


async def replaced(session: AsyncSession, token_id: str) -> bool:
    """Whether it was rotated into a token that still works."""
    found = exists().where(TokenRow.replaces == token_id, TokenRow.revoked_at.is_(None))
    return (await session.execute(select(found))).scalar_one()


async def end_within(session: AsyncSession, row: TokenRow, seconds: int) -> None:
    """The token and its sessions end after so many seconds, or earlier where they do anyway."""
    await session.execute(
        update(TokenRow)
        .where(or_(TokenRow.id == row.id, TokenRow.created_by == row.id))
        .values(expires_at=func.least(func.now() + timedelta(seconds=seconds), TokenRow.expires_at))
        .execution_options(synchronize_session=False)
    )
    await session.refresh(row, ["expires_at"])


async def expired(session: AsyncSession, row: TokenRow) -> bool:
    """By the database's clock."""
    query = select(func.coalesce(TokenRow.expires_at <= func.now(), False)).where(TokenRow.id == row.id)
    return bool((await session.execute(query)).scalar_one())
