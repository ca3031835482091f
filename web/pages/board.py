"""`/`: every deployment, worst first."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from registry.client import deployments
from registry.contract.deployments import Deployment
from web.gather import Gathered, gather
from web.registry import Asker, Failure
from web.render import CALM_MS, URGENT_MS, Frame, page
from web.revision import revision
from web.views.board import headline, row
from web.visitor import Present

router = APIRouter()

AT_ONCE = 6
MOST = 200


@router.get("/")
async def show(request: Request, visitor: Present) -> Response:
    found = await _read(visitor.ask)
    if isinstance(found, Failure):
        frame = Frame("Releases: not known", visitor.who, revision(found))
        return page(request, "board.html", frame, rows=(), failure=found, summary="")
    rows = sorted((row(each, visitor.who) for each in found), key=lambda made: made.order)
    frame = Frame(headline(rows), visitor.who, _revision(found), _every_ms(found))
    return page(request, "board.html", frame, rows=rows, failure=None, summary=headline(rows))


@router.get("/rev/")
async def rev(visitor: Present) -> Response:
    found = await _read(visitor.ask)
    if isinstance(found, Failure):
        return JSONResponse({"rev": revision(found), "every_ms": CALM_MS})
    return JSONResponse({"rev": _revision(found), "every_ms": _every_ms(found)})


async def _read(ask: Asker) -> list[Gathered] | Failure:
    listed = await ask.panel("the list of deployments", deployments.page(limit=MOST))
    if isinstance(listed, Failure):
        return listed
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(deployment: Deployment) -> Gathered:
        async with gate:
            return await gather(ask, deployment)

    return list(await asyncio.gather(*map(one, listed.items)))


def _revision(found: list[Gathered]) -> str:
    return revision(*(each.revision for each in found))


def _every_ms(found: list[Gathered]) -> int:
    return URGENT_MS if any(each.facts.rolling_back for each in found) else CALM_MS
