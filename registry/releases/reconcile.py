"""What the registry does when nodes know more than it: break-glass rollbacks, and routes it has forgotten."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.nodes import DeploymentReport, Override
from registry.contract.releases import RollBack
from registry.contract.routes import Fence, Route, RouteCause
from registry.deployments import routing
from registry.deployments import service as deployments
from registry.edge.principal import SYSTEM
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import Conflict
from registry.identity import Identity
from registry.lifecycle.shares import Table
from registry.nodes.fragments import NodeFacts
from registry.nodes.intake import Hooks
from registry.releases.rollback import lock_deployment, roll_back
from registry.tables.deployments import DeploymentRow


def hooks(resources: Resources, identity: Identity) -> Hooks:
    """What the node room calls, each in a transaction of its own."""

    def unit(session: AsyncSession) -> Unit:
        return Unit(session, resources, identity, SYSTEM, via="node")

    async def on_override(session: AsyncSession, node: NodeFacts, override: Override) -> None:
        await settle_override(unit(session), node, override)

    async def on_higher_fence(session: AsyncSession, node: NodeFacts, report: DeploymentReport) -> None:
        assert report.fence is not None
        await catch_up(unit(session), node, report.deployment, report.fence)

    return Hooks(on_override=on_override, on_higher_fence=on_higher_fence)


async def settle_override(unit: Unit, node: NodeFacts, override: Override) -> None:
    """The first report of a direct rollback runs the ordinary one, for the whole fleet, and settles it.

    A later one with another target is a conflict: it is written down for a person, and its node keeps
    what was decided there.
    """
    environment, _, name = override.deployment.partition("/")
    deployment = await lock_deployment(unit.session, environment, name)
    newest = await deployments.newest_route(unit.session, deployment)
    if newest is not None and override.id in newest.resolves:
        # Another registry process was told of it too.
        return
    if deployment.stable_arm != override.to or not deployment.pinned:
        reason = f"direct rollback on {node.name} by {override.by}"
        if deployment.pin_rollback is not None:
            unit.audit("override.conflict", deployment.subject, None, override, f"{reason}: another target")
            return
        try:
            # The nodes have gone there already, so whether the version is fit is no question any more.
            asked = RollBack(to=override.to, reason=reason, allow_unfit=True)
            await roll_back(unit, environment, name, asked, automatic=False)
        except Conflict as conflict:
            unit.audit("override.conflict", deployment.subject, None, override, f"{reason}: {conflict}")
            return
    await _again(unit, deployment, RouteCause.ROLL_BACK, f"settles {override.id}", (override.id,))
    unit.audit("override.settled", deployment.subject, None, override, f"reported by {node.name}")


async def catch_up(unit: Unit, node: NodeFacts, ref: str, reported: Fence) -> None:
    """A node follows a generation that this registry does not know (it was restored from a backup): the
    requested route is appended above it, so that every node follows the registry again."""
    environment, _, name = ref.partition("/")
    deployment = await lock_deployment(unit.session, environment, name)
    route = await deployments.newest_route(unit.session, deployment)
    if route is None or reported.generation <= deployment.generation:
        return
    deployment.generation = reported.generation
    reason = f"{node.name} follows generation {reported.generation}, unknown here"
    await _append(unit, deployment, route, RouteCause.TIMELINE, reason, route.resolves)
    unit.audit("route.caught_up", deployment.subject, None, reported, reason)


async def _again(
    unit: Unit, deployment: DeploymentRow, cause: RouteCause, reason: str, resolves: tuple[str, ...]
) -> None:
    """The newest route once more, as a new generation that settles overrides."""
    route = await deployments.newest_route(unit.session, deployment)
    assert route is not None
    await _append(unit, deployment, route, cause, reason, resolves)


async def _append(
    unit: Unit,
    deployment: DeploymentRow,
    route: Route,
    cause: RouteCause,
    reason: str,
    resolves: tuple[str, ...],
) -> None:
    await routing.append(
        unit.session,
        deployment,
        unit.identity,
        Table(route.arms, route.keep),
        cause=cause,
        actor=unit.actor,
        reason=reason,
        salt=route.salt,
        edges=route.edges,
        mirror=route.mirror,
        release=route.release,
        resolves=resolves,
    )
