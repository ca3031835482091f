"""Releases over HTTP."""

from fastapi import APIRouter, Response

from registry.contract.pages import Page
from registry.contract.releases import Promote, Receipt, ReceiptNote, Release, Transition
from registry.contract.tokens import Role
from registry.contract.verdicts import Explanation
from registry.deployments import service as deployments
from registry.edge import pages
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.releases import explain as explanation
from registry.releases import promote as promotion
from registry.releases import service, steps

router = APIRouter(prefix="/v1", tags=["releases"], route_class=EdgeRoute)
AT = "/deployments/{environment}/{name}"
ONE = AT + "/releases/{number}"
RELEASER = [requires(Role.RELEASER)]
READING = [requires(*READERS)]


def _tagged(response: Response, made: Release) -> Release:
    tag(response, made.revision)
    return made


@router.post(AT + "/promote", status_code=201, dependencies=RELEASER)
async def promote(
    unit: UnitOfWork, environment: str, name: str, body: Promote, response: Response
) -> Release:
    """Puts a version into service: a release by the deployment's policy. 409 tells every guard's reason."""
    return _tagged(response, await promotion.promote(unit, environment, name, body))


@router.get(AT + "/releases", dependencies=READING)
async def listing(
    unit: UnitOfWork, environment: str, name: str, page_token: PageToken = None, limit: Limit = 100
) -> Page[Release]:
    """Newest first."""
    row = await deployments.row(unit.session, environment, name)
    return await service.listing(unit, row, pages.after(page_token, int), limit)


@router.get(ONE, dependencies=READING)
async def get(unit: UnitOfWork, environment: str, name: str, number: int, response: Response) -> Release:
    row = await deployments.row(unit.session, environment, name)
    return _tagged(response, await service.get(unit, row, number))


@router.post(ONE + "/advance", dependencies=RELEASER)
async def advance(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """The plan's next step, by command and recorded as such."""
    return _tagged(response, await steps.advance(unit, environment, name, number, body))


@router.post(ONE + "/pause", dependencies=RELEASER)
async def pause(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """Shares stay as they are; nothing advances. Automatic rollback stays on."""
    return _tagged(response, await steps.pause(unit, environment, name, number, body))


@router.post(ONE + "/resume", dependencies=RELEASER)
async def resume(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """Ends a hold, a pause or a freeze."""
    return _tagged(response, await steps.resume(unit, environment, name, number, body))


@router.post(ONE + "/abort", dependencies=RELEASER)
async def abort(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """Stable takes everything; no pin. Needs no approval."""
    return _tagged(response, await steps.abort(unit, environment, name, number, body))


@router.post(ONE + "/approve", dependencies=[requires(Role.APPROVER)])
async def approve(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """One's own release can't be approved. The last approval needed starts it."""
    return _tagged(response, await steps.approve(unit, environment, name, number, body))


@router.get(ONE + "/explain", dependencies=READING)
async def explain(unit: UnitOfWork, environment: str, name: str, number: int) -> Explanation:
    """The verdict, computed anew from the stored counters, beside the one that was decided."""
    row = await deployments.row(unit.session, environment, name)
    return await explanation.explain(unit, row, number)


@router.get(AT + "/rollbacks", dependencies=READING)
async def receipts(unit: UnitOfWork, environment: str, name: str, limit: Limit = 100) -> Page[Receipt]:
    """Newest first."""
    row = await deployments.row(unit.session, environment, name)
    return await service.receipt_list(unit, row, limit)


@router.post("/rollbacks/{rollback}/notes", dependencies=RELEASER)
async def note(unit: UnitOfWork, rollback: str, body: ReceiptNote) -> Receipt:
    """A reason given afterwards."""
    return await service.add_note(unit, rollback, body)
