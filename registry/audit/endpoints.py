"""The audit trail over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from registry.audit import service
from registry.contract.audit import AuditEntry
from registry.contract.pages import Page
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import PEOPLE
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1", tags=["audit"], route_class=EdgeRoute)


@router.get("/audit", dependencies=[requires(*PEOPLE)])
async def listing(
    unit: UnitOfWork,
    subject: Annotated[str | None, Query(max_length=256, description="A prefix: deployment:prod/")] = None,
    actor: Annotated[str | None, Query(max_length=128)] = None,
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Page[AuditEntry]:
    """Who changed what, from what to what, why, and through which door. Newest first."""
    return await service.listing(unit.session, after(page_token, int), limit, subject, actor)
