"""Which arms a rollback may go to: not to a version that was quarantined or archived since it served."""

from registry.contract.deployments import Arm
from registry.contract.identity import parse_version
from registry.contract.versions import VersionStage
from registry.deployments import service as deployments
from registry.edge.unit import Unit
from registry.errors import GuardFailed
from registry.lifecycle.shares import name_of
from registry.models import service as models
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow

UNFIT = (VersionStage.QUARANTINED, VersionStage.ARCHIVED, VersionStage.REJECTED)


async def refuse_unfit(
    unit: Unit, deployment: DeploymentRow, release: ReleaseRow | None, target: Arm
) -> None:
    """Raises GuardFailed that names the targets which may be used.

    What serves already is never refused: taking the traffic from a canary back to it changes nothing for the
    better or worse but the canary, and the emergency stop must not wait for anyone.
    """
    serving = {deployment.stable_arm, release.from_arm_id if release is not None else None}
    why = None if target.id in serving else await _unfit(unit, target)
    if why is None:
        return
    served = await deployments.arms_served(unit.session, deployment.id)
    arms = await deployments.arms(unit.session, set(served))
    others = [
        name_of(arms[arm])
        for arm in served
        if arm not in (target.id, deployment.stable_arm) and await _unfit(unit, arms[arm]) is None
    ]
    instead = f"name one of {', '.join(others)}" if others else "no other version that served here is fit"
    raise GuardFailed(
        f"{deployment.ref} can't go back to {name_of(target)}: {why}",
        f"{instead}; to go there all the same: allow_unfit (CLI: --to {name_of(target)} --allow-unfit)",
        [why],
    )


async def _unfit(unit: Unit, arm: Arm) -> str | None:
    ref = parse_version(arm.version)
    row = await models.version_row(unit.session, ref.model, ref.number)
    return f"{row.ref} is {row.phase}: {row.phase_reason}" if row.phase in UNFIT else None
