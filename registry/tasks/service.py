"""What other rooms do with tasks: enqueue, prove the lease, end, cancel. What one is for, `orders` knows."""

from collections.abc import Collection
from functools import partial
from typing import Literal, assert_never

from pydantic import TypeAdapter
from sqlalchemy.ext.asyncio import AsyncSession

from registry.broker import BUILD, VERIFY
from registry.contract.tasks import LogChunk, Task, TaskPhase
from registry.edge.unit import Unit
from registry.errors import Fenced, NotFound
from registry.lifecycle.tasks import TaskEvent
from registry.tables.base import new_id
from registry.tables.journal import advance
from registry.tables.tasks import TaskRow
from registry.tasks import repository

TaskKind = Literal["verify", "build"]


def task_name(kind: TaskKind) -> str:
    """The name under which workers know this kind of work."""
    match kind:
        case "verify":
            return VERIFY
        case "build":
            return BUILD
        case _:
            assert_never(kind)


def kind_of(row: TaskRow) -> TaskKind:
    return TypeAdapter[TaskKind](TaskKind).validate_python(row.kind)


def represent(row: TaskRow) -> Task:
    return Task.model_validate(
        {
            "id": row.id,
            "kind": row.kind,
            "queue": row.queue,
            "phase": row.phase,
            "reason": row.phase_reason,
            "attempt": row.attempt,
            "worker": row.worker,
            "lease_until": row.lease_until,
            "created_at": row.created_at,
        }
    )


async def enqueue(unit: Unit, kind: TaskKind, queue: str, subject_id: str, priority: int = 0) -> TaskRow:
    """A task in the present transaction; its wake-up leaves after the commit and may get lost."""
    row = TaskRow(
        id=new_id("tsk"),
        kind=kind,
        queue=queue,
        subject_id=subject_id,
        priority=priority,
        phase=TaskPhase.QUEUED,
    )
    unit.session.add(row)
    await unit.session.flush()
    await repository.published(unit.session, [row.id])
    unit.after_commit.append(partial(wake, unit, row))
    return row


async def wake(unit: Unit, row: TaskRow) -> None:
    await unit.resources.broker.wake(task_name(kind_of(row)), row.id, row.queue, row.priority)


async def get(session: AsyncSession, task_id: str) -> TaskRow:
    """Raises NotFound."""
    row = await repository.task(session, task_id)
    if row is None:
        raise _unknown(task_id)
    return row


async def by_id(session: AsyncSession, task_ids: Collection[str]) -> dict[str, TaskRow]:
    return {row.id: row for row in await repository.tasks(session, task_ids)}


async def locked(session: AsyncSession, task_id: str) -> TaskRow:
    """Raises NotFound."""
    row = await repository.task(session, task_id, lock=True)
    if row is None:
        raise _unknown(task_id)
    return row


async def held(session: AsyncSession, task_id: str, fence: int) -> TaskRow:
    """The task, locked, if `fence` is its present lease. Raises Fenced: nothing may be written then."""
    row = await locked(session, task_id)
    if row.phase != TaskPhase.LEASED or row.fence != fence:
        raise lost(row, fence)
    return row


def ended_by(row: TaskRow, fence: int) -> bool:
    """True when the holder of `fence` ended the task already: its repeated report changes nothing."""
    return row.fence == fence and row.phase in (TaskPhase.DONE, TaskPhase.FAILED)


def lost(row: TaskRow, fence: int) -> Fenced:
    if row.phase != TaskPhase.LEASED:
        because = f"it is {row.phase}" + (f" ({row.phase_reason})" if row.phase_reason else "")
    else:
        because = f"its lease is at fence {row.fence} now, held by {row.worker}"
    return Fenced(
        f"fence {fence} does not hold task {row.id} any more: {because}",
        "stop this work and write nothing more; what was written before is kept",
    )


async def renew(unit: Unit, task_id: str, fence: int) -> TaskRow:
    row = await held(unit.session, task_id, fence)
    await repository.extend(unit.session, row)
    return row


async def add_log(unit: Unit, task_id: str, chunk: LogChunk) -> None:
    await held(unit.session, task_id, chunk.fence)
    text = chunk.text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    await repository.add_log(unit.session, task_id, chunk.fence, chunk.seq, text)


async def log_of(session: AsyncSession, subject_id: str) -> str:
    """All that the tasks of this subject logged."""
    return "".join(await repository.log_of(session, subject_id))


async def end(unit: Unit, row: TaskRow, failed: bool, reason: str) -> None:
    await advance(
        unit.session, row, TaskEvent.FAIL if failed else TaskEvent.FINISH, actor=unit.actor, reason=reason
    )


async def cancel(unit: Unit, task_id: str, reason: str) -> None:
    """Queued or leased → cancelled; the holder learns it at its next write. An ended task stays."""
    row = await locked(unit.session, task_id)
    if row.phase in (TaskPhase.QUEUED, TaskPhase.LEASED):
        await advance(unit.session, row, TaskEvent.CANCEL, actor=unit.actor, reason=reason)


def _unknown(task_id: str) -> NotFound:
    return NotFound(f"there is no task {task_id}", "a wake-up from another registry? check SLIPWAY_URL")
