"""Deletions and the collector over HTTP."""

from fastapi import APIRouter, Request

from registry.contract.identity import Digest, Name
from registry.contract.retention import Collected, GarbageCollect
from registry.contract.tokens import Role
from registry.datasets import service as datasets
from registry.datasets.endpoints import Number as DatasetNumber
from registry.edge.route import EdgeRoute, transaction
from registry.edge.sent import SentRoute
from registry.edge.unit import UnitOfWork, match_revision, requires
from registry.models import service as models
from registry.models.version_endpoints import Number
from registry.retention import collector, service

router = APIRouter(prefix="/v1", tags=["retention"], route_class=EdgeRoute)
# Opens its own transactions, see `collect`.
long_router = APIRouter(prefix="/v1", tags=["retention"], route_class=SentRoute)

_PUBLISHER = requires(Role.PUBLISHER)


@router.delete("/models/{model}/versions/{number}", status_code=204, dependencies=[_PUBLISHER])
async def delete_version(model: Name, number: Number, unit: UnitOfWork, request: Request) -> None:
    """A draft, rejected or archived version, with its builds. Needs If-Match. 409 names what refers to it."""
    row = await service.version_row(unit, model, number)
    match_revision(request, row.revision, row.ref)
    await service.delete_version(unit, row)


@router.delete("/models/{model}", status_code=204, dependencies=[_PUBLISHER])
async def delete_model(model: Name, unit: UnitOfWork, request: Request) -> None:
    """A model without versions. Needs If-Match. 409 names what refers to it."""
    unit.principal.require_model(model)
    row = await models.model_row(unit.session, model, lock=True)
    match_revision(request, row.revision, f"the model {model}")
    await service.delete_model(unit, row)


@router.delete("/datasets/{name}/versions/{version}", status_code=204, dependencies=[_PUBLISHER])
async def delete_dataset(name: Name, version: DatasetNumber, unit: UnitOfWork, request: Request) -> None:
    """A data set that nothing refers to. Needs If-Match. 409 names what refers to it."""
    row = await datasets.locked(unit.session, name, version)
    match_revision(request, row.revision, f"the data set {name}@{version}")
    await service.delete_dataset(unit, row)


@router.delete("/blobs/{digest}", status_code=204, dependencies=[requires(Role.ADMIN)])
async def delete_blob(digest: Digest, unit: UnitOfWork) -> None:
    """Bytes that nothing refers to, without waiting for the collector. 409 names what refers to them."""
    await service.delete_blob(unit, digest)


@long_router.post("/gc")
async def collect(body: GarbageCollect, request: Request) -> Collected:
    """One pass of the collector over what nothing refers to; repeat it with the answer's `cursor`.

    A repetition does no harm, so this needs no idempotency key.
    """
    return await collector.collect(lambda: transaction(request), body)
