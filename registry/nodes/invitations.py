"""Use cases of invitations: one-time tokens with which no node has enrolled yet."""

from registry.contract.nodes import Invitation
from registry.contract.pages import Page
from registry.edge.pages import page
from registry.edge.unit import Unit
from registry.errors import NotFound
from registry.nodes import repository
from registry.tables.access import EnrolmentRow


async def listing(unit: Unit, environment: str | None, after: str | None, limit: int) -> Page[Invitation]:
    """Oldest first: those that a node may still use, of environments that the caller may see."""
    if environment is not None:
        unit.principal.require_environment(environment)
    within = {environment} if environment is not None else unit.principal.environments
    rows = await repository.pending_enrolments(unit.session, within, after, limit)
    return page(rows, limit, _represent, lambda row: row.id)


async def revoke(unit: Unit, enrolment_id: str) -> None:
    """No node enrols with it any more. Raises NotFound, also where one has enrolled with it already."""
    row = await repository.pending_enrolment(unit.session, enrolment_id)
    if row is None or not unit.principal.sees(environment=row.environment):
        raise NotFound(
            f"there is no pending invitation {enrolment_id}",
            "list them: slipway node invitations; what has enrolled is a node: slipway node list",
        )
    before = _represent(row)
    await unit.session.delete(row)
    await unit.session.flush()
    unit.audit("node.uninvite", f"enrolment:{row.id}", before, None)


def _represent(row: EnrolmentRow) -> Invitation:
    return Invitation(
        id=row.id,
        environment=row.environment,
        expires_at=row.expires_at,
        created_at=row.created_at,
        created_by=row.created_by,
    )
