"""Queries on tokens."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func as sql
from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.access import TokenRow


async def token(session: AsyncSession, token_id: str) -> TokenRow | None:
    query = select(TokenRow).where(TokenRow.id == token_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def tokens(session: AsyncSession, after: str | None, limit: int) -> Sequence[TokenRow]:
    """Oldest first, one more than `limit`."""
    query = select(TokenRow).order_by(TokenRow.id).limit(limit + 1)
    if after is not None:
        query = query.where(TokenRow.id > after)
    return (await session.execute(query)).scalars().all()


async def expires_at_most(session: AsyncSession, token_id: str, seconds: int) -> datetime:
    """So many seconds from now, or the token's own expiry where that comes first."""
    query = select(sql.least(sql.now() + timedelta(seconds=seconds), TokenRow.expires_at)).where(
        TokenRow.id == token_id
    )
    moment: datetime = (await session.execute(query)).scalar_one()
    return moment


async def revoke(session: AsyncSession, row: TokenRow) -> None:
    """Now, by the database's clock, with the sessions that were made from it."""
    await session.execute(
        update(TokenRow)
        .where(or_(TokenRow.id == row.id, TokenRow.created_by == row.id), TokenRow.revoked_at.is_(None))
        .values(revoked_at=sql.now())
        .execution_options(synchronize_session=False)
    )
    await session.refresh(row, ["revoked_at"])
