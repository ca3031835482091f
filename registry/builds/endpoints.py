"""Builds, engines, arms and cached steps over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from registry.builds import reports, service
from registry.contract.builds import (
    Build,
    BuildCreate,
    CachedStep,
    CachedStepWrite,
    EngineWrite,
    StepWrite,
    TaskFinish,
)
from registry.contract.deployments import Arm
from registry.contract.engines import Engine
from registry.contract.identity import ArmId, Digest
from registry.contract.pages import Page
from registry.contract.tokens import Role
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken, after
from registry.edge.roles import ANYONE, READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.errors import Invalid

router = APIRouter(prefix="/v1", tags=["builds"], route_class=EdgeRoute)

_PUBLISHER = requires(Role.PUBLISHER)
_WORKER = requires(Role.BUILDER)
_READERS = requires(*READERS)

VersionFilter = Annotated[str | None, Query(max_length=128, description="MODEL@NUMBER")]


def _tagged(response: Response, made: Build) -> Build:
    tag(response, made.revision)
    return made


@router.post("/builds", status_code=201, dependencies=[_PUBLISHER])
async def create(body: BuildCreate, unit: UnitOfWork, response: Response) -> Build:
    """Queues a build of a ready version. Without a recipe: FP32 on the CPU."""
    made = await service.create(unit, body)
    response.headers["location"] = f"/v1/builds/{made.id}"
    return _tagged(response, made)


@router.get("/builds", dependencies=[_READERS])
async def listing(
    unit: UnitOfWork, version: VersionFilter = None, page_token: PageToken = None, limit: Limit = 100
) -> Page[Build]:
    """Newest first."""
    return await service.listing(unit, version, after(page_token, str), limit)


@router.get("/builds/{build}", dependencies=[_READERS])
async def get(build: str, unit: UnitOfWork, response: Response) -> Build:
    return _tagged(response, await service.get(unit, build))


@router.get("/builds/{build}/log", dependencies=[_READERS])
async def log(build: str, unit: UnitOfWork) -> str:
    """The log so far, of every attempt, as one JSON string."""
    return await service.log(unit, build)


@router.post("/builds/{build}/cancel", dependencies=[_PUBLISHER])
async def cancel(build: str, unit: UnitOfWork, response: Response) -> Build:
    return _tagged(response, await service.cancel(unit, build))


@router.post("/builds/{build}/retry", dependencies=[_PUBLISHER])
async def retry(build: str, unit: UnitOfWork, response: Response) -> Build:
    """A failed or cancelled build runs again; cached steps take no time."""
    return _tagged(response, await service.retry(unit, build))


@router.put("/builds/{build}/steps", status_code=204, dependencies=[_WORKER])
async def put_step(build: str, body: StepWrite, unit: UnitOfWork) -> None:
    """For workers: the report of a step, replacing the earlier one."""
    await reports.put_step(unit, build, body)


@router.put("/builds/{build}/engines", dependencies=[_WORKER])
async def put_engine(build: str, body: EngineWrite, unit: UnitOfWork) -> Engine:
    """For workers: an engine with its reports. The registry judges by its gates whether it is releasable."""
    return await reports.put_engine(unit, build, body)


@router.post("/builds/{build}/finish", dependencies=[_WORKER])
async def finish(build: str, body: TaskFinish, unit: UnitOfWork, response: Response) -> Build:
    """For workers: the end of the build."""
    return _tagged(response, await reports.finish(unit, build, body))


@router.get("/cached-steps/{key}", dependencies=[_WORKER])
async def cached_step(key: Digest, unit: UnitOfWork) -> CachedStep | None:
    """For workers: null where the step never ran."""
    return await reports.cached_step(unit, key)


@router.put("/cached-steps/{key}", dependencies=[_WORKER])
async def put_cached_step(key: Digest, body: CachedStepWrite, unit: UnitOfWork) -> CachedStep:
    """For workers: the first writer's result is kept and is the answer."""
    if body.key != key:
        raise Invalid(f"the body's key is {body.key}, the path's is {key}", "send the same key in both")
    return await reports.put_cached_step(unit, body)


@router.get("/engines", dependencies=[_READERS])
async def engines(
    unit: UnitOfWork, version: VersionFilter = None, page_token: PageToken = None, limit: Limit = 100
) -> Page[Engine]:
    """Newest first."""
    return await service.engines(unit, version, after(page_token, str), limit)


@router.get("/engines/{engine}", dependencies=[_READERS])
async def engine(engine: str, unit: UnitOfWork) -> Engine:
    return await service.engine(unit, engine)


@router.get("/arms/{arm}", dependencies=[requires(*ANYONE)])
async def arm(arm: ArmId, unit: UnitOfWork) -> Arm:
    """What a release moves traffic to: version, precision and one engine per target."""
    return await service.arm(unit.session, arm)
