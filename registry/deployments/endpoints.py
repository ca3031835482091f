"""Deployments over HTTP."""

from datetime import datetime

from fastapi import APIRouter, Query, Request, Response

from registry.contract.audit import Served
from registry.contract.deployments import Deployment, DeploymentCreate, DeploymentPatch, Pin
from registry.contract.pages import Page
from registry.contract.routes import Route
from registry.contract.tokens import Role
from registry.deployments import repository, service
from registry.edge import pages
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, match_revision, requires
from registry.errors import Invalid
from registry.releases import service as releases

READING = [requires(*READERS)]

router = APIRouter(prefix="/v1/deployments", tags=["deployments"], route_class=EdgeRoute)


def _tagged(response: Response, made: Deployment) -> Deployment:
    tag(response, made.revision)
    return made


@router.post("", status_code=201, dependencies=[requires(Role.RELEASER)])
async def create(unit: UnitOfWork, body: DeploymentCreate, response: Response) -> Deployment:
    """A model served under a name in an environment. Nothing is served before the first release."""
    return _tagged(response, await service.create(unit, body))


@router.get("", dependencies=READING)
async def listing(
    unit: UnitOfWork, environment: str | None = None, page_token: PageToken = None, limit: Limit = 100
) -> Page[Deployment]:
    """By environment and name."""
    rows = await repository.page(
        unit.session, environment, pages.after(page_token, str), limit + 1, unit.principal
    )
    active = await releases.active_numbers(unit.session, [row.id for row in rows])
    made = {row.id: await service.represent(unit.session, row, active.get(row.id)) for row in rows[:limit]}
    return pages.page(rows, limit, lambda row: made[row.id], lambda row: row.ref)


@router.get("/{environment}/{name}", dependencies=READING)
async def get(unit: UnitOfWork, environment: str, name: str, response: Response) -> Deployment:
    """The requested state. What nodes observed is at `…/status`."""
    row = await repository.get(unit.session, environment, name)
    active = await releases.active_numbers(unit.session, [row.id])
    return _tagged(response, await service.represent(unit.session, row, active.get(row.id)))


@router.patch("/{environment}/{name}", dependencies=[requires(Role.RELEASER)])
async def patch(
    unit: UnitOfWork,
    environment: str,
    name: str,
    body: DeploymentPatch,
    request: Request,
    response: Response,
) -> Deployment:
    """Selector, routing unit or policy. Needs If-Match."""
    row = await repository.lock(unit.session, environment, name)
    match_revision(request, row.revision, row.ref)
    return _tagged(response, await service.patch(unit, row, body))


@router.post("/{environment}/{name}/pin", dependencies=[requires(Role.RELEASER)])
async def pin(unit: UnitOfWork, environment: str, name: str, body: Pin, response: Response) -> Deployment:
    """Automation off until the pin is lifted. Rollback stays possible."""
    row = await repository.lock(unit.session, environment, name)
    return _tagged(response, await service.pin(unit, row, body))


@router.post("/{environment}/{name}/unpin", dependencies=[requires(Role.RELEASER)])
async def unpin(unit: UnitOfWork, environment: str, name: str, response: Response) -> Deployment:
    """Lifts the pin, also the one that a rollback set."""
    row = await repository.lock(unit.session, environment, name)
    return _tagged(response, await service.unpin(unit, row))


@router.get("/{environment}/{name}/routes", dependencies=READING)
async def routes(
    unit: UnitOfWork, environment: str, name: str, page_token: PageToken = None, limit: Limit = 100
) -> Page[Route]:
    """Every generation, newest first."""
    row = await repository.get(unit.session, environment, name)
    rows = await repository.routes(unit.session, row.id, pages.after(page_token, int), limit + 1)
    return pages.page(rows, limit, lambda route: route, lambda route: route.fence.generation)


@router.get("/{environment}/{name}/served", dependencies=READING)
async def served(
    unit: UnitOfWork, environment: str, name: str, at: datetime = Query(description="RFC 3339")
) -> Served:
    """What was served at a moment."""
    if at.tzinfo is None:
        raise Invalid("`at` has no time zone", "write it as RFC 3339, for example 2026-01-31T12:00:00Z")
    row = await repository.get(unit.session, environment, name)
    return await service.served(unit.session, row, at)
