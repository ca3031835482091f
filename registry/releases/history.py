"""How a release is changed: its phase by `advance`, its place in the plan, and its history entry."""

from collections.abc import Iterable

from sqlalchemy import func

from registry.contract.deployments import Arm, Policy
from registry.contract.routes import Route, RouteCause
from registry.deployments import routing
from registry.edge.unit import Unit
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import Table
from registry.releases import trial
from registry.releases.represent import share_of
from registry.tables.deployments import DeploymentRow
from registry.tables.journal import advance
from registry.tables.releases import ReleaseChangeRow, ReleaseRow

NO_HOLD = ""


def note(
    unit: Unit, row: ReleaseRow, cause: str, reason: str, *, by_command: bool, generation: int | None = None
) -> None:
    """One entry of the history, in the transaction of the change."""
    unit.session.add(
        ReleaseChangeRow(
            release_id=row.id,
            phase=row.phase,
            hold=row.hold,
            step=row.step,
            share=share_of(row),
            cause=cause,
            actor=unit.actor,
            reason=reason,
            by_command=by_command,
            generation=generation,
        )
    )


async def move(
    unit: Unit,
    row: ReleaseRow,
    event: ReleaseEvent,
    reason: str,
    *,
    by_command: bool,
    generation: int | None = None,
    guards: Iterable[str | None] = (),
) -> None:
    """Moves the phase and writes the history. A hold ends with every move."""
    row.hold = NO_HOLD
    await advance(unit.session, row, event, actor=unit.actor, reason=reason, guards=guards)
    note(unit, row, event, reason, by_command=by_command, generation=generation)


async def route(
    unit: Unit,
    deployment: DeploymentRow,
    row: ReleaseRow,
    table: Table,
    cause: RouteCause,
    reason: str,
    contract_arm: Arm,
) -> Route:
    """Appends a generation on behalf of a release. Counters are on the edges of its trial; before that, and
    after it, on those of `contract_arm`."""
    standing = trial.load(row)
    if standing is not None and standing.compared.stable == contract_arm.id:
        edges = standing.compared.edges
    else:
        edges = await trial.edges_for(unit.session, deployment, contract_arm)
    made = await routing.append(
        unit.session,
        deployment,
        unit.identity,
        table,
        cause=cause,
        actor=unit.actor,
        reason=reason,
        salt=row.salt,
        edges=edges,
        mirror=Policy.model_validate(row.policy).mirror,
        release=row.number,
    )
    row.generation = made.fence.generation
    row.step_since = func.clock_timestamp()
    return made
