"""Tasks over HTTP: what workers do with their leases."""

from fastapi import APIRouter, Request

from registry.contract.tasks import Claim, Fenced, Lease, LogChunk, Task, VerifyResult
from registry.contract.tokens import Role
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute, transaction
from registry.edge.sent import SentRoute
from registry.edge.unit import UnitOfWork, requires
from registry.tasks import orders, service

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=EdgeRoute)
# Opens its own transactions, see `verified`.
long_router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=SentRoute)

_WORKER = requires(Role.BUILDER)


@router.get("/{task}", dependencies=[requires(*READERS)])
async def get(task: str, unit: UnitOfWork) -> Task:
    return service.represent(await service.get(unit.session, task))


@router.post("/{task}/claim", dependencies=[_WORKER])
async def claim(task: str, body: Claim, unit: UnitOfWork) -> Lease | None:
    """The lease and what to do, or null: someone else holds it, or it is over."""
    return await orders.claim(unit, task, body.worker)


@router.post("/{task}/renew", dependencies=[_WORKER])
async def renew(task: str, body: Fenced, unit: UnitOfWork) -> Task:
    """A whole lease from now on. 409 `fenced`: stop and write nothing more."""
    return service.represent(await service.renew(unit, task, body.fence))


@router.post("/{task}/log", status_code=204, dependencies=[_WORKER])
async def log(task: str, body: LogChunk, unit: UnitOfWork) -> None:
    """A chunk of the log; a repeated one is ignored."""
    await service.add_log(unit, task, body)


@long_router.post("/{task}/verified")
async def verified(task: str, body: VerifyResult, request: Request) -> Task:
    """What was read of an upload: it becomes a blob, or is rejected with what differs.

    The fence makes a repetition harmless, so this needs no idempotency key.
    """
    return await orders.finish_verify(lambda: transaction(request), task, body)
