"""Nodes over HTTP, and what a deployment's nodes observe. The hot routes are in `asgi`."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from registry.contract.deployments import DeploymentStatus, PublishedNode
from registry.contract.identity import Environment, Name
from registry.contract.nodes import Enrol, Enrolled, Enrolment, EnrolmentCreate, Invitation, Node
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.contract.wire import Command
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.nodes import invitations as service_of_invitations
from registry.nodes import service, status

router = APIRouter(prefix="/v1", tags=["nodes"], route_class=EdgeRoute)

_READ = requires(*READERS)
_RELEASE = requires(Role.RELEASER)


@router.post("/enrolments", status_code=201, dependencies=[_RELEASE])
async def invite(body: EnrolmentCreate, unit: UnitOfWork, response: Response) -> Enrolment:
    """A one-time token with which one node enrols into the environment. It is shown once."""
    response.headers["cache-control"] = "no-store"
    return await service.invite(unit, body)


@router.get("/enrolments", dependencies=[_RELEASE])
async def invitations(
    unit: UnitOfWork,
    environment: Annotated[Environment | None, Query()] = None,
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Page[Invitation]:
    """One-time tokens that nobody has used yet and that have not expired, oldest first."""
    return await service_of_invitations.listing(unit, environment, after(page_token, str), limit)


@router.delete("/enrolments/{enrolment}", status_code=204, dependencies=[_RELEASE])
async def uninvite(enrolment: str, unit: UnitOfWork) -> None:
    """No node enrols with it any more. 404 where one has already."""
    await service_of_invitations.revoke(unit, enrolment)


@router.post("/nodes", status_code=201, openapi_extra={"security": []})
async def enrol(
    body: Enrol,
    unit: UnitOfWork,
    response: Response,
    authorization: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Enrolled:
    """Sent by a node with its one-time token as bearer. The answer holds the node's own token, once."""
    made = await service.enrol(unit, authorization, body)
    response.headers["cache-control"] = "no-store"
    response.headers["location"] = f"/v1/nodes/{made.node}"
    return made


@router.get("/nodes", dependencies=[_READ])
async def listing(
    unit: UnitOfWork,
    environment: Annotated[Environment | None, Query()] = None,
    page_token: PageToken = None,
    limit: Limit = 100,
) -> Page[Node]:
    """In order of enrolment."""
    return await service.listing(unit, environment, after(page_token, str), limit)


@router.get("/nodes/{node}", dependencies=[requires(*READERS, Role.NODE)])
async def get(node: str, unit: UnitOfWork, response: Response) -> Node:
    """A node sees itself; people see all of their environments."""
    if unit.principal.node_id is not None:
        unit.principal.require_node(node)
    found = await service.get(unit, node)
    tag(response, found.revision)
    return found


@router.post("/nodes/{node}/drain", dependencies=[_RELEASE])
async def drain(node: str, unit: UnitOfWork, body: Command | None = None) -> Node:
    """No new requests; what is under way ends."""
    return await service.set_draining(unit, node, True)


@router.post("/nodes/{node}/undrain", dependencies=[_RELEASE])
async def undrain(node: str, unit: UnitOfWork, body: Command | None = None) -> Node:
    """Back into service."""
    return await service.set_draining(unit, node, False)


@router.get("/deployments/{environment}/{name}/status", dependencies=[_READ])
async def deployment_status(environment: Environment, name: Name, unit: UnitOfWork) -> DeploymentStatus:
    """What the nodes themselves report: observed shares, confirmed generation, phase of every arm."""
    return await status.status(unit, environment, name)


@router.get("/deployments/{environment}/{name}/nodes", dependencies=[_READ])
async def published(environment: Environment, name: Name, unit: UnitOfWork) -> tuple[PublishedNode, ...]:
    """The nodes that can answer every arm, in the form of Prometheus' http_sd."""
    return await status.published(unit, environment, name)
