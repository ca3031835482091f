"""Queries on the audit trail."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.journal import AuditRow


async def entries(
    session: AsyncSession, below: int | None, limit: int, subject: str | None, actor: str | None
) -> Sequence[AuditRow]:
    """Newest first, one more than `limit`. `subject` is a prefix."""
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit + 1)
    if below is not None:
        query = query.where(AuditRow.id < below)
    if subject is not None:
        query = query.where(AuditRow.subject.startswith(subject, autoescape=True))
    if actor is not None:
        query = query.where(AuditRow.actor == actor)
    return (await session.execute(query)).scalars().all()
