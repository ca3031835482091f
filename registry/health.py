"""Is the process alive, and can it do its work: each dependency by name."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import text

from registry.contract.wire import Wire
from registry.edge.resources import Resources
from registry.errors import Refusal

log = logging.getLogger(__name__)

LIMIT_S = 2.0
KEPT_S = 1.0
CAN_NOT_WRITE = "it answers, but can't write: its disk is full, or fails"

router = APIRouter(tags=["health"])


class Readiness(Wire):
    """Each dependency: `ok`, or what is wrong with it."""

    ready: bool
    dependencies: dict[str, str]


class Probes:
    """What the dependencies answer, kept for a second: many who ask are one question to each of them."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._asking: asyncio.Task[dict[str, str]] | None = None
        self._asked_at = 0.0

    async def found(self) -> dict[str, str]:
        """By name, within `LIMIT_S` seconds."""
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._asked_at > KEPT_S):
            self._asked_at = now
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> dict[str, str]:
        probes = {"database": self._database, "object store": self._store, "broker": self._broker}
        answers = await asyncio.gather(*(_bounded(name, probe) for name, probe in probes.items()))
        return {**dict(zip(probes, answers, strict=True)), "notices": self._resources.listener.state}

    async def _database(self) -> str:
        async with self._resources.database.engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
        return "ok" if self._resources.database.writes else CAN_NOT_WRITE

    async def _store(self) -> str:
        await self._resources.blobs.probe()
        return "ok"

    async def _broker(self) -> str:
        return await self._resources.broker.probe()


async def _bounded(name: str, probe: Callable[[], Awaitable[str]]) -> str:
    """The log has the whole error; the page, which needs no token, has its kind."""
    asking = asyncio.ensure_future(probe())
    # Waiting, not cancelling: what is cancelled may itself wait for a server that is silent.
    done, _ = await asyncio.wait({asking}, timeout=LIMIT_S)
    if not done:
        asking.cancel()
        return f"no answer within {LIMIT_S:g} s"
    try:
        return asking.result()
    except Exception as error:
        log.warning("%s: %s", name, error.detail if isinstance(error, Refusal) else error)
        kind = getattr(error, "orig", None) or error.__cause__ or error
        return f"no connection: {type(kind).__name__}"


def _probes(request: Request) -> Probes:
    probes: Probes = request.app.state.probes
    return probes


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": Readiness, "description": "The database is away"}})
async def readyz(
    request: Request, probes: Annotated[Probes, Depends(_probes)], response: Response
) -> Readiness:
    """503 when the database is away: nothing works then. Broker and store fail only what needs them;
    without notices, what other processes change is seen a few seconds later.

    The headers `x-slipway-registry` and `x-slipway-process` (its number) say who answers: on a shared machine
    it may be another one than the asker started."""
    response.headers["x-slipway-registry"] = request.app.state.identity.registry_id
    response.headers["x-slipway-process"] = str(os.getpid())
    found = await probes.found()
    # What is read is still right then, and whoever looks at it needs it most.
    ready = found["database"] in ("ok", CAN_NOT_WRITE)
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, dependencies=found)
