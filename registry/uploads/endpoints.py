"""Uploads and blobs over HTTP."""

from fastapi import APIRouter
from fastapi.responses import RedirectResponse

from registry.contract.identity import Digest
from registry.contract.tokens import Role
from registry.contract.uploads import Blob, Upload, UploadCreate
from registry.edge.roles import ANYONE
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.tasks import at_once
from registry.uploads import service

router = APIRouter(prefix="/v1", tags=["uploads"], route_class=EdgeRoute)

_WRITERS = requires(Role.PUBLISHER, Role.BUILDER)


@router.post("/uploads", dependencies=[_WRITERS])
async def create(body: UploadCreate, unit: UnitOfWork) -> Upload:
    """Begin or resume an upload. PUT each part with a `url` to it, then complete."""
    return await service.create(unit, body)


@router.get("/uploads/{upload}", dependencies=[_WRITERS])
async def get(upload: str, unit: UnitOfWork) -> Upload:
    """What has arrived, with fresh URLs for the parts that have not."""
    return await service.get(unit, upload)


@router.post("/uploads/{upload}/complete", dependencies=[_WRITERS])
async def complete(upload: str, unit: UnitOfWork) -> Upload:
    """All parts are there: verify them. 409 names those that are missing. A small file is verified, or
    rejected, before the answer; a larger one by a worker afterwards."""
    return await at_once.complete(unit, upload)


@router.post("/uploads/{upload}/abort", dependencies=[_WRITERS])
async def abort(upload: str, unit: UnitOfWork) -> Upload:
    return await service.abort(unit, upload)


@router.get("/blobs/{digest}/meta", dependencies=[requires(*ANYONE)])
async def blob(digest: Digest, unit: UnitOfWork) -> Blob:
    return await service.blob(unit.session, digest)


@router.get(
    "/blobs/{digest}",
    dependencies=[requires(*ANYONE)],
    status_code=307,
    response_class=RedirectResponse,
)
async def content(digest: Digest, unit: UnitOfWork) -> RedirectResponse:
    """Redirects to the bytes at the object store; the URL is valid for a while and needs no token."""
    return RedirectResponse(await service.location(unit, digest), 307)
