"""The registry's ASGI app: rooms' routers, problem documents, health, background loops."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from registry import background, health, problems
from registry.access import endpoints as access
from registry.audit import endpoints as audit
from registry.blobs.store import BlobStore
from registry.broker import TIMEOUT_S, Broker
from registry.builds import endpoints as builds
from registry.controller import Controller
from registry.database import Database
from registry.datasets import endpoints as datasets
from registry.deployments import endpoints as deployments
from registry.drift import endpoints as drift
from registry.drift.loop import RollUps
from registry.edge.resources import Resources
from registry.identity import establish
from registry.listen import Listener
from registry.models import endpoints as models
from registry.models import version_endpoints as versions
from registry.nodes import endpoints as nodes
from registry.nodes import room
from registry.nodes.asgi import NodeRoutes
from registry.releases import endpoints as releases
from registry.releases import pressing, reconcile
from registry.requestid import RequestId
from registry.settings import Settings
from registry.tasks import endpoints as tasks
from registry.tasks.sweep import Sweep
from registry.uploads import endpoints as uploads

log = logging.getLogger(__name__)

ROUTERS = (
    health.router,
    access.router,
    audit.router,
    models.router,
    versions.router,
    uploads.router,
    datasets.router,
    builds.router,
    tasks.router,
    tasks.long_router,
    nodes.router,
    drift.router,
    deployments.router,
    releases.router,
    pressing.router,
)


def build(settings: Settings) -> ASGIApp:
    """The whole registry as one ASGI app. Its lifespan connects, starts the loops, and ends them."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        resources: Resources = app.state.resources
        app.state.identity = await establish(resources.database, settings)
        await resources.blobs.ensure_bucket()
        try:
            async with (
                room.running(
                    resources.database,
                    app.state.identity,
                    resources.listener,
                    reconcile.hooks(resources, app.state.identity),
                ) as app.state.nodes,
                background.running(
                    Sweep(resources, app.state.identity).run(),
                    resources.listener.run(),
                    RollUps(resources.database, settings.look_every_s).run(),
                    *([Controller(resources, app.state.identity).run()] if settings.controller else []),
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
    )
    app.state.settings = settings
    listen_url = settings.database_listen_url or settings.database_url
    app.state.resources = Resources(
        settings,
        Database(settings),
        BlobStore(settings),
        Broker(settings),
        Listener(listen_url.get_secret_value()),
    )
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    return RequestId(NodeRoutes(app), settings.max_body_bytes)
