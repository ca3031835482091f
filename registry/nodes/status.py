"""What a deployment's nodes observe, beside what was requested of them."""

from registry.contract.deployments import DeploymentStatus, ObservedArm, ObservedNode, PublishedNode
from registry.contract.routes import ArmRole, Route
from registry.deployments import service as deployments
from registry.edge.unit import Unit
from registry.nodes import repository
from registry.nodes.states import Seen, seen
from registry.tables.deployments import DeploymentRow
from registry.tables.nodes import AppliedRow


async def status(unit: Unit, environment: str, name: str) -> DeploymentStatus:
    """Raises NotFound. Shares are the mean over fresh nodes; an old report counts for nothing."""
    unit.principal.require_environment(environment)
    deployment = await deployments.row(unit.session, environment, name)
    route = await deployments.newest_route(unit.session, deployment)
    nodes = await _nodes(unit, deployment)
    left_out = await repository.left_out(unit.session, deployment.id)
    return DeploymentStatus(
        deployment=deployment.ref,
        generation=deployment.generation,
        nodes=tuple(_observed(node, applied, route, deployment.ref, left_out) for node, applied in nodes),
        converged=bool(nodes) and route is not None and all(_follows(node, route) for node, _ in nodes),
        observed=_mean([node for node, _ in nodes], deployment.ref),
        as_of=await repository.now(unit.session),
    )


async def published(unit: Unit, environment: str, name: str) -> tuple[PublishedNode, ...]:
    """Raises NotFound."""
    unit.principal.require_environment(environment)
    deployment = await deployments.row(unit.session, environment, name)
    left_out = await repository.left_out(unit.session, deployment.id)
    return tuple(
        PublishedNode(
            targets=(node.row.address,),
            labels={"deployment": deployment.ref, "node": node.row.id, "node_name": node.row.name},
        )
        for node, _ in await _nodes(unit, deployment)
        if node.published(deployment.ref, left_out)
    )


async def _nodes(unit: Unit, deployment: DeploymentRow) -> list[tuple[Seen, AppliedRow | None]]:
    now, stale_s = await repository.now(unit.session), unit.resources.settings.node_stale_s
    rows = await repository.serving(unit.session, deployment, unit.identity.timeline)
    return [(seen(row, now, stale_s), applied) for row, applied in rows]


def _follows(node: Seen, route: Route) -> bool:
    """Does the node do what was requested, and nothing else any more?"""
    reported = node.deployment(route.deployment)
    return (
        node.fresh
        and reported is not None
        and reported.fence == route.fence
        and reported.switched
        and reported.drained
    )


def _mean(nodes: list[Seen], ref: str) -> dict[str, int]:
    shares = [
        reported.shares for node in nodes if node.fresh and (reported := node.deployment(ref)) is not None
    ]
    arms = sorted({arm for each in shares for arm in each})
    return {arm: round(sum(each.get(arm, 0) for each in shares) / len(shares)) for arm in arms}


def _observed(
    node: Seen, applied: AppliedRow | None, route: Route | None, ref: str, left_out: frozenset[str]
) -> ObservedNode:
    reported = node.deployment(ref)
    roles: dict[str, ArmRole] = {arm.arm: arm.role for arm in route.arms} if route else {}
    return ObservedNode(
        node=node.row.id,
        name=node.row.name,
        fresh=node.fresh,
        last_seen_at=node.row.last_seen_at,
        published=node.published(ref, left_out),
        applied=reported.fence if reported else None,
        switched_at=applied.switched_at if applied else None,
        drained_at=applied.drained_at if applied else None,
        arms=tuple(
            ObservedArm(
                arm=slot.arm,
                version=slot.version,
                role=roles.get(slot.arm),
                share=reported.shares.get(slot.arm, 0) if reported else 0,
                phase=slot.phase,
                reason=slot.reason,
                standby=slot.standby,
            )
            for slot in node.slots(ref)
        ),
        says=node.report.says if node.report else "",
        address=node.row.address,
    )
