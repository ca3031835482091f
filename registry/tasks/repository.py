"""Queries on tasks and their logs."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy import func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.tasks import TaskPhase
from registry.lifecycle.tasks import LEASE_S, MAX_ATTEMPTS
from registry.tables.tasks import TaskLogRow, TaskRow

# One statement, so that of two claims one wins and the other gets nothing, and a claim is never half done.
_CLAIM = text("""
WITH due AS (
    SELECT id, phase FROM tasks
    WHERE id = :id AND (
        phase = 'queued'
        OR (phase = 'leased' AND lease_until < clock_timestamp() AND attempt < :attempts)
    )
    FOR UPDATE
), claimed AS (
    UPDATE tasks SET
        phase = 'leased', phase_reason = '', phase_since = clock_timestamp(),
        attempt = attempt + 1, fence = fence + 1, revision = revision + 1, worker = :worker,
        lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    FROM due WHERE tasks.id = due.id
    RETURNING tasks.id, due.phase AS from_phase
), noted AS (
    INSERT INTO journal (subject, event, from_phase, to_phase, actor, reason)
    SELECT 'task:' || id, 'claim', from_phase, 'leased', :worker, '' FROM claimed
)
SELECT id FROM claimed
""")


async def task(session: AsyncSession, task_id: str, *, lock: bool = False) -> TaskRow | None:
    query = select(TaskRow).where(TaskRow.id == task_id).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def tasks(session: AsyncSession, task_ids: Collection[str]) -> Sequence[TaskRow]:
    return (await session.execute(select(TaskRow).where(TaskRow.id.in_(task_ids)))).scalars().all()


async def claim(session: AsyncSession, task_id: str, worker: str) -> TaskRow | None:
    """Leases the task, on the database's clock; None where it can't be had."""
    values = {"id": task_id, "worker": worker, "attempts": MAX_ATTEMPTS, "lease_s": LEASE_S}
    if (await session.execute(_CLAIM, values)).scalar_one_or_none() is None:
        return None
    return await task(session, task_id)


async def extend(session: AsyncSession, row: TaskRow) -> None:
    """A whole lease from now on. The row must be locked."""
    await session.execute(
        update(TaskRow)
        .where(TaskRow.id == row.id)
        .values(lease_until=func.clock_timestamp() + timedelta(seconds=LEASE_S))
        .execution_options(synchronize_session=False)
    )
    await session.refresh(row, ["lease_until"])


async def add_log(session: AsyncSession, task_id: str, fence: int, seq: int, chunk: str) -> None:
    """A chunk that is there already is left as it is."""
    await session.execute(
        insert(TaskLogRow).values(task_id=task_id, fence=fence, seq=seq, text=chunk).on_conflict_do_nothing()
    )


async def log_of(session: AsyncSession, subject_id: str) -> Sequence[str]:
    """The chunks of all tasks of a subject, in order."""
    return (
        (
            await session.execute(
                select(TaskLogRow.text)
                .join(TaskRow, TaskRow.id == TaskLogRow.task_id)
                .where(TaskRow.subject_id == subject_id)
                .order_by(TaskRow.created_at, TaskRow.id, TaskLogRow.fence, TaskLogRow.seq)
            )
        )
        .scalars()
        .all()
    )


async def overdue(session: AsyncSession, older_than_s: float, limit: int) -> Sequence[TaskRow]:
    """Tasks that wait for a worker and whose last wake-up is old; locked, and marked as woken now.

    What another sweep has locked is left to it.
    """
    rows = (
        (
            await session.execute(
                select(TaskRow)
                .where(
                    or_(
                        TaskRow.phase == TaskPhase.QUEUED,
                        (TaskRow.phase == TaskPhase.LEASED)
                        & (TaskRow.lease_until < func.clock_timestamp())
                        & (TaskRow.attempt < MAX_ATTEMPTS),
                    ),
                    or_(
                        TaskRow.published_at.is_(None),
                        TaskRow.published_at < func.clock_timestamp() - timedelta(seconds=older_than_s),
                    ),
                )
                .order_by(TaskRow.published_at.nulls_first())
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
        )
        .scalars()
        .all()
    )
    await published(session, [row.id for row in rows])
    return rows


async def published(session: AsyncSession, task_ids: Sequence[str]) -> None:
    """Not a change of the task: its revision stays."""
    await session.execute(
        update(TaskRow)
        .where(TaskRow.id.in_(task_ids))
        .values(published_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )


async def exhausted(session: AsyncSession) -> TaskRow | None:
    """One task whose last allowed attempt has lost its lease; locked."""
    return (
        await session.execute(
            select(TaskRow)
            .where(
                TaskRow.phase == TaskPhase.LEASED,
                TaskRow.lease_until < func.clock_timestamp(),
                TaskRow.attempt >= MAX_ATTEMPTS,
            )
            .limit(1)
            .with_for_update(skip_locked=True)
        )
    ).scalar_one_or_none()
