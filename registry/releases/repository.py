"""Every query on releases, looks, approvals and rollbacks."""

from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.releases import ReleasePhase
from registry.errors import NotFound
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import (
    ApprovalRow,
    LookRow,
    ReleaseChangeRow,
    ReleaseRow,
    RollbackNodeRow,
    RollbackRow,
)

TENDED_PHASES = (
    ReleasePhase.PREPARING,
    ReleasePhase.RUNNING,
    ReleasePhase.COMPLETING,
    ReleasePhase.ROLLING_BACK,
)


async def get(session: AsyncSession, deployment: DeploymentRow, number: int) -> ReleaseRow:
    """Raises NotFound."""
    row = (
        await session.execute(
            select(ReleaseRow).where(ReleaseRow.deployment_id == deployment.id, ReleaseRow.number == number)
        )
    ).scalar_one_or_none()
    if row is None:
        raise NotFound(
            f"{deployment.ref} has no release {number}", f"list them: slipway release list {deployment.ref}"
        )
    return row


async def lock(session: AsyncSession, release_id: str) -> ReleaseRow:
    """The row, locked and as it is now; the deployment is locked before."""
    return (
        await session.execute(
            select(ReleaseRow)
            .where(ReleaseRow.id == release_id)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
    ).scalar_one()


async def active(session: AsyncSession, deployment_id: str, *, lock: bool = False) -> ReleaseRow | None:
    """The one release that is under way."""
    wanted = select(ReleaseRow).where(
        ReleaseRow.deployment_id == deployment_id, ReleaseRow.phase.in_(ACTIVE_PHASES)
    )
    if lock:
        wanted = wanted.with_for_update().execution_options(populate_existing=True)
    return (await session.execute(wanted)).scalar_one_or_none()


async def active_numbers(session: AsyncSession, deployment_ids: list[str]) -> dict[str, int]:
    found = await session.execute(
        select(ReleaseRow.deployment_id, ReleaseRow.number).where(
            ReleaseRow.deployment_id.in_(deployment_ids), ReleaseRow.phase.in_(ACTIVE_PHASES)
        )
    )
    return {row.deployment_id: row.number for row in found}


async def completed_of_arm(session: AsyncSession, deployment_id: str, arm: str) -> ReleaseRow | None:
    """The completed release that made `arm` stable last."""
    return (
        await session.execute(
            select(ReleaseRow)
            .where(
                ReleaseRow.deployment_id == deployment_id,
                ReleaseRow.phase == ReleasePhase.COMPLETED,
                ReleaseRow.arm_id == arm,
            )
            .order_by(ReleaseRow.number.desc())
            .limit(1)
            .with_for_update()
        )
    ).scalar_one_or_none()


async def page(session: AsyncSession, deployment_id: str, below: int | None, limit: int) -> list[ReleaseRow]:
    """Newest first."""
    wanted = (
        select(ReleaseRow)
        .where(ReleaseRow.deployment_id == deployment_id)
        .order_by(ReleaseRow.number.desc())
        .limit(limit)
    )
    if below is not None:
        wanted = wanted.where(ReleaseRow.number < below)
    return list((await session.execute(wanted)).scalars())


async def changes(session: AsyncSession, release_id: str) -> list[ReleaseChangeRow]:
    """In order of time."""
    return list(
        (
            await session.execute(
                select(ReleaseChangeRow)
                .where(ReleaseChangeRow.release_id == release_id)
                .order_by(ReleaseChangeRow.id)
            )
        ).scalars()
    )


async def approvals(session: AsyncSession, release_id: str) -> list[ApprovalRow]:
    """In order of time, also those of another arm than the release's present one."""
    return list(
        (
            await session.execute(
                select(ApprovalRow)
                .where(ApprovalRow.release_id == release_id)
                .order_by(ApprovalRow.at)
                .execution_options(populate_existing=True)
            )
        ).scalars()
    )


async def approved_by(session: AsyncSession, row: ReleaseRow) -> frozenset[str]:
    """Who has approved what the release is for now."""
    return frozenset(each.by for each in await approvals(session, row.id) if counts(row, each))


def counts(row: ReleaseRow, approval: ApprovalRow) -> bool:
    """Whether an approval is of the release's present arm."""
    return approval.arm_id in (None, row.arm_id)


async def approve(session: AsyncSession, row: ReleaseRow, by: str, reason: str) -> None:
    """In the place of the same person's earlier one, of another arm."""
    values = {"arm_id": row.arm_id, "reason": reason, "at": func.now()}
    await session.execute(
        insert(ApprovalRow)
        .values(release_id=row.id, by=by, **values)
        .on_conflict_do_update(index_elements=["release_id", "by"], set_=values)
    )


async def withdraw(session: AsyncSession, row: ReleaseRow, by: str) -> None:
    await session.execute(delete(ApprovalRow).where(ApprovalRow.release_id == row.id, ApprovalRow.by == by))


async def bind_approvals(session: AsyncSession, row: ReleaseRow) -> None:
    """To the present arm, where they name none; before the arm changes."""
    await session.execute(
        update(ApprovalRow)
        .where(ApprovalRow.release_id == row.id, ApprovalRow.arm_id.is_(None))
        .values(arm_id=row.arm_id)
        .execution_options(synchronize_session=False)
    )


async def looks(session: AsyncSession, release_id: str) -> list[LookRow]:
    """In order of time."""
    return list(
        (
            await session.execute(
                select(LookRow).where(LookRow.release_id == release_id).order_by(LookRow.seq)
            )
        ).scalars()
    )


async def claim(session: AsyncSession, controller: str, lease_s: float) -> list[tuple[str, int]]:
    """Leases every release that needs tending and that no living controller holds: (id, fence).

    Rows that someone has locked are passed over: a rollback never waits for the controller.
    """
    free = (
        select(ReleaseRow.id)
        .where(
            ReleaseRow.phase.in_(TENDED_PHASES),
            or_(
                ReleaseRow.controller_until.is_(None),
                ReleaseRow.controller_until < func.clock_timestamp(),
                ReleaseRow.controller == controller,
            ),
        )
        .with_for_update(skip_locked=True)
    )
    found = await session.execute(
        update(ReleaseRow)
        .where(ReleaseRow.id.in_(free))
        .values(
            controller=controller,
            controller_until=func.clock_timestamp() + timedelta(seconds=lease_s),
            controller_fence=ReleaseRow.controller_fence + 1,
        )
        .returning(ReleaseRow.id, ReleaseRow.controller_fence)
        .execution_options(synchronize_session=False)
    )
    return [(row.id, row.controller_fence) for row in found]


async def rollback(session: AsyncSession, rollback_id: str) -> RollbackRow:
    """Raises NotFound."""
    row = await session.get(RollbackRow, rollback_id, populate_existing=True)
    if row is None:
        raise NotFound(
            f"there is no rollback {rollback_id}", "list them: GET /v1/deployments/ENVIRONMENT/NAME/rollbacks"
        )
    return row


async def rollbacks(
    session: AsyncSession, deployment_id: str, below: int | None, limit: int
) -> list[RollbackRow]:
    """Newest first, one more than `limit`. By generation, of which every rollback has its own."""
    wanted = select(RollbackRow).where(RollbackRow.deployment_id == deployment_id)
    if below is not None:
        wanted = wanted.where(RollbackRow.generation < below)
    query = wanted.order_by(RollbackRow.generation.desc()).limit(limit + 1)
    return list((await session.execute(query)).scalars())


async def rollback_nodes(session: AsyncSession, rollback_id: str) -> list[RollbackNodeRow]:
    """By name."""
    return list(
        (
            await session.execute(
                select(RollbackNodeRow)
                .where(RollbackNodeRow.rollback_id == rollback_id)
                .order_by(RollbackNodeRow.name)
                .execution_options(populate_existing=True)
            )
        ).scalars()
    )


async def now(session: AsyncSession) -> datetime:
    """The database's clock."""
    moment: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return moment


async def began(session: AsyncSession) -> datetime:
    """When this transaction began, by the database's clock: before any lock was waited for."""
    moment: datetime = (await session.execute(select(func.now()))).scalar_one()
    return moment
