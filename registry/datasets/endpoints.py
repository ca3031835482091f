"""Data sets over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from registry.contract.datasets import Dataset, DatasetCreate, DatasetPatch
from registry.contract.identity import Name
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.datasets import service
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, match_revision, requires

router = APIRouter(prefix="/v1/datasets", tags=["data sets"], route_class=EdgeRoute)

Number = Annotated[int, Path(ge=1, lt=1_000_000_000)]


@router.post("", status_code=201, dependencies=[requires(Role.PUBLISHER, Role.BUILDER)])
async def create(body: DatasetCreate, unit: UnitOfWork, response: Response) -> Dataset:
    """The name's next version; its files must be uploaded and verified before."""
    made = await service.create(unit, body)
    response.headers["location"] = f"/v1/datasets/{made.name}/versions/{made.version}"
    return made


@router.get("", dependencies=[requires(*READERS)])
async def listing(unit: UnitOfWork, page_token: PageToken = None, limit: Limit = 100) -> Page[Dataset]:
    """By name and version."""
    return await service.listing(unit.session, after(page_token, str), limit)


@router.get("/{name}/versions/{version}", dependencies=[requires(*READERS)])
async def get(name: Name, version: Number, unit: UnitOfWork, response: Response) -> Dataset:
    found = await service.get(unit.session, name, version)
    tag(response, found.revision)
    return found


@router.patch("/{name}/versions/{version}", dependencies=[requires(Role.PUBLISHER)])
async def patch(
    name: Name, version: Number, body: DatasetPatch, unit: UnitOfWork, request: Request, response: Response
) -> Dataset:
    """How long the data set stays. Needs If-Match: 428 without it, 412 when someone changed it since."""
    row = await service.locked(unit.session, name, version)
    match_revision(request, row.revision, f"the data set {name}@{version}")
    changed = await service.patch(unit, row, body)
    tag(response, changed.revision)
    return changed
