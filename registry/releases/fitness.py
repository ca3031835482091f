"""Refuses a rollback to what is unfit, with the targets that are not."""

from registry.contract.deployments import Arm
from registry.deployments.fitness import fit_arms, unfit
from registry.edge.unit import Unit
from registry.errors import GuardFailed
from registry.lifecycle.shares import name_of
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow


async def refuse_unfit(
    unit: Unit, deployment: DeploymentRow, release: ReleaseRow | None, target: Arm
) -> None:
    """Raises GuardFailed that names the targets which may be used.

    What serves already is never refused: taking the traffic from a canary back to it changes nothing for the
    better or worse but the canary, and the emergency stop must not wait for anyone.
    """
    serving = {deployment.stable_arm, release.from_arm_id if release is not None else None}
    why = None if target.id in serving else await unfit(unit.session, target)
    if why is None:
        return
    others = [name_of(arm) for arm in await fit_arms(unit.session, deployment) if arm.id != target.id]
    instead = f"name one of {', '.join(others)}" if others else "no other version that served here is fit"
    raise GuardFailed(
        f"{deployment.ref} can't go back to {name_of(target)}: {why}",
        f"{instead}; to go there all the same: allow_unfit (CLI: --to {name_of(target)} --allow-unfit)",
        [why],
    )
