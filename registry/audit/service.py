"""Use cases of the audit trail. Entries are written where things change, by `Unit.audit`."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.audit import repository
from registry.contract.audit import AuditEntry
from registry.contract.pages import Page
from registry.edge.pages import page
from registry.tables.journal import AuditRow


async def listing(
    session: AsyncSession, below: int | None, limit: int, subject: str | None, actor: str | None
) -> Page[AuditEntry]:
    """Newest first."""
    rows = await repository.entries(session, below, limit, subject, actor)
    return page(rows, limit, represent, lambda row: row.id)


def represent(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        before=row.before,
        after=row.after,
        reason=row.reason,
        via=row.via,
        request_id=row.request_id,
    )
