"""Is the process alive, and can it do its work: each dependency by name."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import text

from registry.contract.wire import Wire
from registry.edge.resources import Resources
from registry.errors import Unavailable

router = APIRouter(tags=["health"])


class Readiness(Wire):
    """Each dependency: `ok`, or what is wrong with it."""

    ready: bool
    dependencies: dict[str, str]


def _resources(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(resources: Annotated[Resources, Depends(_resources)], response: Response) -> Readiness:
    """503 when the database is away: nothing works then. Broker and store fail only what needs them."""

    async def database() -> str:
        try:
            async with asyncio.timeout(3), resources.database.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "ok"

    async def store() -> str:
        try:
            async with asyncio.timeout(3):
                await resources.blobs.probe()
        except (Unavailable, TimeoutError) as error:
            return str(error) or "no answer within 3 s"
        return "ok"

    found = dict(
        zip(
            ("database", "object store", "broker"),
            await asyncio.gather(database(), store(), resources.broker.probe()),
            strict=True,
        )
    )
    ready = found["database"] == "ok"
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, dependencies=found)
