"""Which arms a rollback may go to: not to a version that was quarantined or archived since it served."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.deployments import Arm
from registry.contract.identity import parse_version
from registry.contract.versions import VersionStage
from registry.deployments import repository
from registry.models import service as models
from registry.tables.deployments import DeploymentRow

UNFIT = (VersionStage.QUARANTINED, VersionStage.ARCHIVED, VersionStage.REJECTED)


async def unfit(session: AsyncSession, arm: Arm) -> str | None:
    """Why no rollback goes there; None: it may."""
    ref = parse_version(arm.version)
    row = await models.version_row(session, ref.model, ref.number)
    return f"{row.ref} is {row.phase}: {row.phase_reason}" if row.phase in UNFIT else None


async def fit_arms(session: AsyncSession, deployment: DeploymentRow) -> list[Arm]:
    """What had all of the traffic once, isn't stable and may be gone back to, newest first."""
    served = await repository.arms_served(session, deployment.id)
    arms = await repository.arms(session, set(served))
    others = [arms[arm] for arm in served if arm != deployment.stable_arm]
    return [arm for arm in others if await unfit(session, arm) is None]


async def rollback_target(
    session: AsyncSession, deployment: DeploymentRow, last_good: Arm | None
) -> Arm | None:
    """Where a rollback that names nothing goes when no release is under way: the last good arm, or what
    served before it where that one is unfit by now. On the worst night the one button has to lead to
    something that may serve; only where there is nothing else, it names the unfit one, and asks.

    None: nothing is known to be good before stable. The last good arm is what the newest completion replaced,
    so it tells nothing where a rollback went further back since: from there it would lead forward again.
    """
    if last_good is None or last_good.id == deployment.stable_arm:
        return last_good
    if await repository.completed_arm(session, deployment.id) != deployment.stable_arm:
        return None
    if await unfit(session, last_good) is None:
        return last_good
    return next(iter(await fit_arms(session, deployment)), last_good)
