"""Use cases of the audit trail. Entries are written where things change, by `Unit.audit`."""

from datetime import datetime

from registry.audit import repository
from registry.audit import serving as history
from registry.audit.filters import Filter
from registry.contract.audit import AuditEntry, Serving
from registry.contract.pages import Page
from registry.edge.pages import page
from registry.edge.unit import Unit
from registry.tables.journal import AuditRow

newest = repository.newest


async def listing(unit: Unit, below: int | None, limit: int, wanted: Filter) -> Page[AuditEntry]:
    """Newest first; what the caller's scope includes."""
    rows = await repository.entries(unit.session, below, limit, wanted, unit.principal)
    return page(rows, limit, represent, lambda row: row.id)


async def serving(unit: Unit, environment: str, at: datetime, after: str | None, limit: int) -> Page[Serving]:
    """What every deployment of an environment served at a moment, by name. Raises Forbidden."""
    unit.principal.require_environment(environment)
    found = await history.serving(unit.session, environment, at, after, limit, unit.principal)
    return page(found, limit, lambda each: each, lambda each: each.deployment.partition("/")[2])


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
