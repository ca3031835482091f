"""Releases over HTTP."""

from fastapi import APIRouter, Request, Response

from registry.contract.pages import Page
from registry.contract.releases import Promote, Receipt, ReceiptNote, Reject, Release, Transition
from registry.contract.tokens import Role
from registry.contract.verdicts import Explanation
from registry.deployments import service as deployments
from registry.edge import pages
from registry.edge.etag import tag
from registry.edge.pages import Limit, PageToken
from registry.edge.roles import APPROVERS, READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.problems import refused
from registry.releases import approvals, service, steps
from registry.releases import explain as explanation
from registry.releases import promote as promotion

router = APIRouter(prefix="/v1", tags=["releases"], route_class=EdgeRoute)
AT = "/deployments/{environment}/{name}"
ONE = AT + "/releases/{number}"
RELEASER = [requires(Role.RELEASER)]
# Which of these roles it is, the deployment's policy says.
APPROVING = [requires(*APPROVERS)]
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


@router.post(ONE + "/approve", dependencies=APPROVING, response_model=Release)
async def approve(
    request: Request,
    unit: UnitOfWork,
    environment: str,
    name: str,
    number: int,
    body: Transition,
    response: Response,
) -> Response | Release:
    """By a person of the policy's role, never one's own release. The last approval needed starts it.

    409 where the candidate is not any more what the release was promoted for: approvals begin anew.
    """
    made = await approvals.approve(unit, environment, name, number, body)
    if made.changed is not None:
        return await refused(request, made.changed)
    return _tagged(response, made.release)


@router.post(ONE + "/withdraw", dependencies=APPROVING)
async def withdraw(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Transition, response: Response
) -> Release:
    """Takes one's own approval back, as long as the release has not started."""
    return _tagged(response, await approvals.withdraw(unit, environment, name, number, body))


@router.post(ONE + "/reject", dependencies=APPROVING)
async def reject(
    unit: UnitOfWork, environment: str, name: str, number: int, body: Reject, response: Response
) -> Release:
    """Ends a release that awaits approval. One person is enough, and a reason is needed."""
    return _tagged(response, await approvals.reject(unit, environment, name, number, body))


@router.get(ONE + "/explain", dependencies=READING)
async def explain(unit: UnitOfWork, environment: str, name: str, number: int) -> Explanation:
    """The verdict, computed anew from the stored counters, beside the one that was decided."""
    row = await deployments.row(unit.session, environment, name)
    return await explanation.explain(unit, row, number)


@router.get(AT + "/rollbacks", dependencies=READING)
async def receipts(
    unit: UnitOfWork, environment: str, name: str, page_token: PageToken = None, limit: Limit = 100
) -> Page[Receipt]:
    """Newest first."""
    row = await deployments.row(unit.session, environment, name)
    return await service.receipt_list(unit, row, pages.after(page_token, int), limit)


@router.post("/rollbacks/{rollback}/notes", dependencies=RELEASER)
async def note(unit: UnitOfWork, rollback: str, body: ReceiptNote) -> Receipt:
    """A reason given afterwards."""
    return await service.add_note(unit, rollback, body)
