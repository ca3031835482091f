"""What the kinds of tasks are for: claiming gives an order, ending settles its subject."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import assert_never

from registry.blobs.store import StagingChanged
from registry.builds import reports as builds
from registry.contract.tasks import Lease, Order, Task, VerifyResult
from registry.contract.tokens import Role
from registry.edge.unit import Unit
from registry.errors import Invalid
from registry.lifecycle.tasks import LEASE_S, MAX_ATTEMPTS, TaskEvent
from registry.models import versions
from registry.tables.journal import advance
from registry.tables.tasks import TaskRow
from registry.tasks import repository, service
from registry.uploads import service as uploads

OpenUnit = Callable[[], AbstractAsyncContextManager[Unit]]


async def claim(unit: Unit, task_id: str, worker: str) -> Lease | None:
    """The lease with its order; None where someone else holds it or it is over. Raises NotFound."""
    row = await repository.claim(unit.session, task_id, worker)
    if row is None:
        await service.get(unit.session, task_id)
        return None
    return Lease(
        task=row.id,
        fence=row.fence,
        attempt=row.attempt,
        lease_s=LEASE_S,
        order=await _order(unit, row),
    )


async def _order(unit: Unit, row: TaskRow) -> Order:
    kind = service.kind_of(row)
    match kind:
        case "verify":
            return await uploads.order(unit, row.subject_id)
        case "build":
            return await builds.start(unit, row.subject_id, row.worker or "", row.attempt)
        case _:
            assert_never(kind)


async def finish_verify(open_unit: OpenUnit, task_id: str, found: VerifyResult) -> Task:
    """Settles an upload by what the worker read: a blob, or a rejection that says what differs.

    Two transactions with the copy to the final key between them, so that nothing is locked while bytes
    are copied. A process that dies in between leaves the lease to expire: the next worker verifies and
    copies once more, which changes nothing. Repeating the report is no error. Raises Fenced, Invalid.
    """
    async with open_unit() as unit:
        unit.principal.require(Role.BUILDER)
        row = await service.locked(unit.session, task_id)
        if service.ended_by(row, found.fence):
            return service.represent(row)
        row = await service.held(unit.session, task_id, found.fence)
        if service.kind_of(row) != "verify":
            raise Invalid(
                f"task {row.id} is a {row.kind}", "report a build by POST /v1/builds/{build}/finish"
            )
        order = await uploads.order(unit, row.subject_id)
        staging_key = (await uploads.upload_row(unit.session, row.subject_id)).staging_key
        key = await uploads.place_for(unit.session, order.digest)
    reason = difference(order.size, order.digest, found.size, found.digest)
    if not reason and key is not None:
        try:
            await unit.resources.blobs.promote(staging_key, key, found.etag)
        except StagingChanged:
            reason = "the bytes were changed while they were being verified"
    async with open_unit() as unit:
        row = await service.locked(unit.session, task_id)
        if not service.ended_by(row, found.fence):
            row = await service.held(unit.session, task_id, found.fence)
            await service.end(unit, row, failed=False, reason=reason)
            await settle(unit, row.subject_id, reason, key)
        return service.represent(row)


def difference(declared_size: int, declared: str, found_size: int, found: str) -> str:
    """Between what was declared of an upload and what was read of it; empty where there is none."""
    if found_size != declared_size:
        return f"{declared_size} bytes were declared, {found_size} arrived"
    if found != declared:
        return f"declared was {declared}, found {found}"
    return ""


async def settle(unit: Unit, upload_id: str, reason: str, key: str | None) -> None:
    """verifying → verified, or rejected where there is a reason, with the versions that wait for it. The
    bytes are at `key`; None: they were here before."""
    if reason:
        digest = await uploads.settle_rejected(unit, upload_id, reason)
        await versions.file_rejected(unit, digest, reason)
    else:
        digest = await uploads.settle_verified(unit, upload_id, key)
        await versions.files_verified(unit, digest)


async def exhaust_one(unit: Unit) -> bool:
    """Fails one task that used up its attempts, with what it was for. False: there is none."""
    row = await repository.exhausted(unit.session)
    if row is None:
        return False
    reason = (
        f"no worker finished it in {MAX_ATTEMPTS} attempts; the last, {row.worker}, was lost at "
        f"{row.lease_until:%Y-%m-%dT%H:%M:%SZ}"
    )
    await advance(unit.session, row, TaskEvent.EXHAUST, actor=unit.actor, reason=reason)
    kind = service.kind_of(row)
    match kind:
        case "verify":
            # Says nothing against the bytes: versions go on waiting, and uploading again helps them.
            await uploads.settle_rejected(unit, row.subject_id, f"it could not be verified: {reason}")
        case "build":
            await builds.exhaust(unit, row.subject_id, reason)
        case _:
            assert_never(kind)
    return True
