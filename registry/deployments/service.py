"""Use cases of deployments. What moves traffic is in `registry.releases`."""

from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.audit import Served
from registry.contract.deployments import (
    Deployment,
    DeploymentCreate,
    DeploymentPatch,
    Pin,
    Policy,
)
from registry.contract.routes import RoutingUnit
from registry.contract.tokens import Role
from registry.deployments import repository
from registry.deployments.fitness import rollback_target
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid, NotFound
from registry.lifecycle.approvals import weakens
from registry.lifecycle.units import unit_faults
from registry.models import service as models
from registry.tables.base import new_id
from registry.tables.deployments import DeploymentRow

# What other rooms may ask of this one's rows.
row = repository.get
row_by_id = repository.get_by_id
locked = repository.lock
locked_by_id = repository.lock_by_id
arms = repository.arms
newest_route = repository.newest_route
arms_served = repository.arms_served


async def represent(
    session: AsyncSession, row: DeploymentRow, active_release: int | None = None
) -> Deployment:
    """The resource as list and get give it."""
    wanted = {arm for arm in (row.stable_arm, row.last_good_arm) if arm}
    arms = await repository.arms(session, wanted) if wanted else {}
    last_good = arms.get(row.last_good_arm or "")
    return Deployment(
        environment=row.environment,
        name=row.name,
        model=row.model,
        selector=row.selector,
        unit=RoutingUnit.model_validate(row.unit),
        policy=Policy.model_validate(row.policy),
        requested=await repository.newest_route(session, row),
        stable=arms.get(row.stable_arm or ""),
        last_good=last_good,
        rollback_to=await rollback_target(session, row, last_good),
        active_release=active_release,
        pinned=row.pinned,
        pin_reason=row.pin_reason,
        pinned_by=row.pinned_by,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
    )


async def create(unit: Unit, body: DeploymentCreate) -> Deployment:
    """Raises NotFound (no such model), Conflict (the name is taken) and Invalid."""
    unit.principal.require_environment(body.environment)
    unit.principal.require_model(body.model)
    _check_unit(body.unit)
    await models.model_row(unit.session, body.model)
    row = DeploymentRow(
        id=new_id("dep"),
        environment=body.environment,
        name=body.name,
        model=body.model,
        selector=body.selector,
        unit=body.unit.model_dump(mode="json"),
        policy=body.policy.model_dump(mode="json"),
        created_by=unit.actor,
    )
    unit.session.add(row)
    try:
        await unit.session.flush()
    except IntegrityError as error:
        raise Conflict(
            f"the deployment {body.environment}/{body.name} exists already",
            f"look at it: slipway deployment get {body.environment}/{body.name}",
        ) from error
    await unit.session.refresh(row)
    made = await represent(unit.session, row)
    unit.audit("deployment.create", row.subject, None, made)
    return made


def _check_unit(asked: RoutingUnit) -> None:
    faults = unit_faults(asked)
    if faults:
        raise Invalid("; ".join(faults), "correct the deployment's unit", faults)


async def patch(unit: Unit, row: DeploymentRow, body: DeploymentPatch) -> Deployment:
    """A running release keeps the policy that it started with. Fewer or other approvals are for admins."""
    unit.principal.require_environment(row.environment)
    if body.policy is not None and weakens(Policy.model_validate(row.policy), body.policy):
        unit.principal.require(Role.ADMIN)
    before = await represent(unit.session, row)
    if body.selector is not None:
        row.selector = body.selector
    if body.unit is not None:
        _check_unit(body.unit)
        row.unit = body.unit.model_dump(mode="json")
    if body.policy is not None:
        row.policy = body.policy.model_dump(mode="json")
    await unit.session.flush()
    await repository.notify(unit.session, row.id, row.generation)
    after = await represent(unit.session, row)
    unit.audit("deployment.patch", row.subject, before, after)
    return after


async def pin(unit: Unit, row: DeploymentRow, body: Pin) -> Deployment:
    """Automation off. A pin that a rollback set is kept as it is."""
    unit.principal.require_environment(row.environment)
    before = await represent(unit.session, row)
    if not row.pinned:
        row.pinned, row.pin_reason, row.pinned_by, row.pin_rollback = True, body.reason, unit.actor, None
        await unit.session.flush()
    after = await represent(unit.session, row)
    unit.audit("deployment.pin", row.subject, before, after, body.reason)
    return after


async def unpin(unit: Unit, row: DeploymentRow) -> Deployment:
    unit.principal.require_environment(row.environment)
    before = await represent(unit.session, row)
    row.pinned, row.pin_reason, row.pinned_by, row.pin_rollback = False, "", None, None
    await unit.session.flush()
    after = await represent(unit.session, row)
    unit.audit("deployment.unpin", row.subject, before, after)
    return after


async def served(session: AsyncSession, row: DeploymentRow, at: datetime) -> Served:
    """Raises NotFound when nothing was served then."""
    route = await repository.route_at(session, row.id, at)
    if route is None:
        raise NotFound(f"{row.ref} had no route at {at.isoformat()}", "ask for a later moment")
    return Served(
        deployment=row.ref,
        at=at,
        generation=route.fence.generation,
        arms={arm.version: arm.share for arm in route.arms if arm.share},
    )
