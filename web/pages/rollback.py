"""`/d/{env}/{name}/rollback`: confirm on a page of its own, then one plain POST, then the receipt."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from registry.client import builds, deployments
from registry.contract.deployments import Arm
from registry.contract.routes import BASIS_POINTS
from web.gather import Gathered, gather
from web.origin import require_own
from web.press import AskAgain, Pressed, Wish, new_key, press
from web.registry import Failure
from web.render import Frame, page
from web.views.confirm import confirm
from web.views.offer import choices, offer
from web.visitor import Present, Visitor

router = APIRouter()

ROUTES = 200


@router.get("/d/{environment}/{name}/rollback")
async def show(
    request: Request, visitor: Present, environment: str, name: str, to: str | None = None
) -> Response:
    return await _confirm(request, visitor, f"{environment}/{name}", to)


@router.get("/rev/d/{environment}/{name}/rollback")
async def rev(visitor: Present, environment: str, name: str) -> Response:
    gathered = await _read(visitor, f"{environment}/{name}")
    return JSONResponse({"rev": gathered.revision, "every_ms": 2000})


@router.post("/d/{environment}/{name}/rollback", dependencies=[Depends(require_own)])
async def submit(
    request: Request,
    visitor: Present,
    environment: str,
    name: str,
    target: Annotated[str, Form()],
    key: Annotated[str, Form()],
    explicit: Annotated[bool, Form()] = False,
) -> Response:
    ref = f"{environment}/{name}"
    outcome = await press(visitor.ask, ref, Wish(target, explicit, key))
    match outcome:
        case Pressed(receipt, already):
            return RedirectResponse(f"/rollbacks/{receipt}{'?pressed=already' if already else ''}", 303)
        case AskAgain(why):
            return await _confirm(request, visitor, ref, target if explicit else None, why, 409)


async def _read(visitor: Visitor, ref: str) -> Gathered:
    return await gather(visitor.ask, await visitor.ask.must(deployments.get(ref)))


async def _confirm(
    request: Request, visitor: Visitor, ref: str, to: str | None, notice: str = "", status: int = 200
) -> Response:
    gathered = await _read(visitor, ref)
    facts = gathered.facts
    offered = offer(facts, visitor.who)
    routes = await visitor.ask.panel("earlier versions", deployments.routes(ref, limit=ROUTES))
    route = facts.deployment.requested
    current = [arm.arm for arm in route.arms if arm.share == BASIS_POINTS] if route else []
    others = () if isinstance(routes, Failure) else choices(routes.items, current, facts.names)
    chosen = await _chosen(visitor, to) if visitor.can_release else None
    target = chosen or offered.target
    failures = (*gathered.failures, *((routes,) if isinstance(routes, Failure) else ()))
    view = confirm(facts, target, others, explicit=chosen is not None) if target else None
    title = f"Roll back to {view.target_name}? · {ref}" if view else f"Roll back: not possible · {ref}"
    return page(
        request,
        "rollback.html",
        Frame(title, visitor.who, gathered.revision, swap="details"),
        status,
        deployment=facts.deployment,
        offer=offered,
        view=view,
        others=others,
        key=new_key(view.seen if view else 0),
        notice=notice,
        failures=failures,
    )


async def _chosen(visitor: Visitor, to: str | None) -> Arm | None:
    if not to:
        return None
    return await visitor.ask.must(builds.arm(to))
