"""The registry's ASGI app: rooms' routers, problem documents, health, background loops."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import APIRouter, FastAPI
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from registry import background, health, metrics, openapi, problems
from registry.access import endpoints as access
from registry.audit import endpoints as audit
from registry.blobs.store import BlobStore
from registry.broker import TIMEOUT_S, Broker
from registry.builds import endpoints as builds
from registry.capacity import endpoints as capacity
from registry.controller import Controller
from registry.database import Database
from registry.datasets import endpoints as datasets
from registry.deployments import endpoints as deployments
from registry.drift import endpoints as drift
from registry.drift.loop import RollUps
from registry.edge.resources import Resources
from registry.errors import Unavailable
from registry.events import endpoints as events
from registry.events import room as event_room
from registry.events import webhook_endpoints as webhooks
from registry.head import Heads
from registry.identity import Identity, establish
from registry.lineage import endpoints as lineage
from registry.listen import Listener
from registry.mlflow import artifact_endpoints as mlflow_artifacts
from registry.mlflow import endpoints as mlflow
from registry.mlflow.copying import Copies
from registry.models import endpoints as models
from registry.models import version_endpoints as versions
from registry.models.quick_route import QuickCreates
from registry.models.quick_search import QuickSearches
from registry.nodes import endpoints as nodes
from registry.nodes import room
from registry.nodes.asgi import NodeRoutes
from registry.observe import Observe
from registry.releases import endpoints as releases
from registry.releases import pressing, reconcile
from registry.requestid import RequestId
from registry.retention import endpoints as retention
from registry.retention.loop import Collecting
from registry.settings import Settings
from registry.tasks import endpoints as tasks
from registry.tasks.sweep import Sweep
from registry.uploads import endpoints as uploads

log = logging.getLogger(__name__)

DATABASE_PATIENCE_S = 30
AGAIN_S = 1.0

ROUTERS = (
    health.router,
    metrics.router,
    access.router,
    audit.router,
    models.router,
    versions.router,
    versions.search_router,
    lineage.router,
    uploads.router,
    datasets.router,
    builds.router,
    tasks.router,
    tasks.long_router,
    nodes.router,
    drift.router,
    deployments.router,
    capacity.router,
    releases.router,
    pressing.router,
    retention.router,
    retention.long_router,
    events.router,
    webhooks.router,
    webhooks.long_router,
    mlflow_artifacts.long_router,
    mlflow_artifacts.router,
    mlflow.own_router,
    mlflow.router,
)


def build(settings: Settings) -> ASGIApp:
    """The whole registry as one ASGI app. Its lifespan connects, starts the loops, and ends them."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        resources: Resources = app.state.resources
        app.state.identity = await _established(resources)
        made = await _bucket_made(resources)
        try:
            async with (
                room.running(
                    resources.database,
                    app.state.identity,
                    resources.listener,
                    reconcile.hooks(resources, app.state.identity),
                ) as app.state.nodes,
                event_room.running(resources, app.state.identity) as app.state.events,
                background.running(
                    Sweep(resources, app.state.identity).run,
                    resources.listener.run,
                    RollUps(resources.database, settings.look_every_s).run,
                    Copies(resources, app.state.identity).run,
                    *([] if made else [partial(_make_bucket, resources)]),
                    *([Controller(resources, app.state.identity).run] if settings.controller else []),
                    *([Collecting(resources, app.state.identity).run] if settings.gc_every_s else []),
                ),
            ):
                yield
        finally:
            await resources.errands.close(TIMEOUT_S)
            resources.broker.close()
            resources.blobs.close()
            await resources.database.close()

    app = FastAPI(
        title="Slipway registry",
        version="1",
        description="Model lifecycle: register, build, gray release, watch, roll back.",
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
        openapi_url="/openapi.json",
        # A redirect would answer a POST with nothing that says what is wrong.
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.resources = resources_of(settings)
    requests = metrics.Requests()
    app.state.probes = health.Probes(app.state.resources)
    app.state.exposition = metrics.Exposition(app.state.resources, requests)
    problems.install(app)
    openapi.install(app)
    app.router.routes.extend(_routes())
    routes = QuickSearches(app, QuickCreates(app, NodeRoutes(app)))
    return Observe(RequestId(Heads(routes), settings.max_body_bytes), requests)


@cache
def _routes() -> list[BaseRoute]:
    """Made once: FastAPI reads every signature again for each app that includes a router, a quarter of a
    second for all of them."""
    whole = APIRouter()
    for router in ROUTERS:
        whole.include_router(router)
    return whole.routes


def resources_of(settings: Settings) -> Resources:
    """Nothing is connected yet."""
    listen_url = settings.database_listen_url or settings.database_url
    return Resources(
        settings,
        Database(settings),
        BlobStore(settings),
        Broker(settings),
        Listener(listen_url.get_secret_value()),
    )


async def _established(resources: Resources) -> Identity:
    """Waits a while for a database that is about to come. Raises what it says at the end of that."""
    until = time.monotonic() + DATABASE_PATIENCE_S
    while True:
        try:
            return await establish(resources.database, resources.settings)
        except (OperationalError, PoolTimeout) as error:
            if time.monotonic() > until:
                raise
            log.warning("waiting for the database: %s", error)
            await asyncio.sleep(AGAIN_S)


async def _bucket_made(resources: Resources) -> bool:
    try:
        await resources.blobs.ensure_bucket()
    except Unavailable as error:
        log.warning("started without the object store: %s", error.detail)
        return False
    return True


async def _make_bucket(resources: Resources) -> None:
    """For a store that comes later than the registry: until then only what needs it fails."""
    while True:
        await asyncio.sleep(AGAIN_S)
        if await _bucket_made(resources):
            return
