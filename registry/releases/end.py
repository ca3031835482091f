"""Ending a release before its good end: stable takes everything, the candidate is dropped."""

from registry.contract.deployments import Arm
from registry.contract.routes import Route, RouteCause
from registry.deployments import service as deployments
from registry.edge.unit import Unit
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import settled
from registry.releases import history
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow


async def arms_of(unit: Unit, row: ReleaseRow) -> tuple[Arm, Arm | None]:
    """Candidate and stable of a release."""
    found = await deployments.arms(unit.session, {arm for arm in (row.arm_id, row.from_arm_id) if arm})
    return found[row.arm_id], found.get(row.from_arm_id or "")


async def end_active(
    unit: Unit,
    deployment: DeploymentRow,
    row: ReleaseRow,
    event: ReleaseEvent,
    cause: RouteCause,
    reason: str,
    *,
    by_command: bool = True,
) -> Route | None:
    """Moves the release by `event` and gives stable all shares. A first release leaves an empty route.

    None: the release had not started, so there is no route to take back.
    """
    candidate, stable = await arms_of(unit, row)
    made = None
    if row.generation is not None:
        standby = await _standby(unit, deployment, stable)
        made = await history.route(
            unit, deployment, row, settled(stable, standby), cause, reason, stable or candidate
        )
    await history.move(
        unit,
        row,
        event,
        reason,
        by_command=by_command,
        generation=made.fence.generation if made else None,
    )
    return made


async def _standby(unit: Unit, deployment: DeploymentRow, stable: Arm | None) -> Arm | None:
    """The last good arm, if it is another one than stable."""
    last_good = deployment.last_good_arm
    if last_good is None or (stable is not None and last_good == stable.id):
        return None
    return (await deployments.arms(unit.session, {last_good}))[last_good]
