"""Data sets over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from registry.contract.datasets import Dataset, DatasetCreate
from registry.contract.identity import Name
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.datasets import service
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1/datasets", tags=["data sets"], route_class=EdgeRoute)


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
async def get(name: Name, version: Annotated[int, Path(ge=1, lt=1_000_000_000)], unit: UnitOfWork) -> Dataset:
    return await service.get(unit.session, name, version)
