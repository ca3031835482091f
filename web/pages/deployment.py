"""`/d/{env}/{name}`: everything about one deployment on one page."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from registry.client import deployments
from web.gather import Gathered, gather
from web.render import CALM_MS, URGENT_MS, Frame, page
from web.views import fleet, gates, history
from web.views.offer import offer
from web.views.plan import plan
from web.views.shares import shares
from web.views.verdict import judge
from web.visitor import Present, Visitor

router = APIRouter()

PAST = 8


@router.get("/d/{environment}/{name}")
async def show(request: Request, visitor: Present, environment: str, name: str) -> Response:
    gathered = await _read(visitor, environment, name)
    facts = gathered.facts
    judgement, active = judge(facts), facts.active
    title = f"{judgement.word} · {facts.deployment.ref}"
    return page(
        request,
        "deployment.html",
        Frame(title, visitor.who, gathered.revision, _every_ms(gathered)),
        deployment=facts.deployment,
        judgement=judgement,
        shares=shares(facts),
        offer=offer(facts, visitor.who),
        release=active,
        candidate=facts.names(active.arm) if active else "",
        plan=plan(active, facts.deployment.policy, datetime.now(UTC)) if active else None,
        verdict=active.verdict if active else None,
        gates=gates.groups(active.verdict) if active and active.verdict else (),
        nodes=fleet.rows(facts) if facts.status else None,
        history=history.history(gathered.releases, gathered.receipts, facts.names),
        failures=gathered.failures,
    )


@router.get("/rev/d/{environment}/{name}")
async def rev(visitor: Present, environment: str, name: str) -> Response:
    gathered = await _read(visitor, environment, name)
    return JSONResponse({"rev": gathered.revision, "every_ms": _every_ms(gathered)})


async def _read(visitor: Visitor, environment: str, name: str) -> Gathered:
    deployment = await visitor.ask.must(deployments.get(f"{environment}/{name}"))
    return await gather(visitor.ask, deployment, PAST)


def _every_ms(gathered: Gathered) -> int:
    return URGENT_MS if gathered.facts.rolling_back else CALM_MS
