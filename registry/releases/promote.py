"""Promote: resolve the arm, ask every guard, and start a release."""

import secrets
from dataclasses import dataclass, replace

from registry.builds import service as builds
from registry.capacity import service as capacity
from registry.capacity.planning import Need
from registry.contract.deployments import Arm, Policy
from registry.contract.identity import VersionRef, parse_version
from registry.contract.releases import Guard, Promote, Release
from registry.contract.routes import RouteCause
from registry.contract.versions import VersionContract, VersionStage
from registry.deployments import arms as arm_rules
from registry.deployments import service as deployments
from registry.deployments.arms import Resolved
from registry.edge.unit import Unit
from registry.errors import Conflict, GuardFailed, Invalid, Pinned
from registry.lifecycle.approvals import approval_guard, waits
from registry.lifecycle.contracts import is_servable
from registry.lifecycle.guards import CapacityFacts, MetricFacts, NodeFacts, StartFacts, start_guards
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import on_trial, plan_of
from registry.models import service as models
from registry.nodes.pool import PoolNode, pool
from registry.releases import history, repository, represent
from registry.releases.end import end_active
from registry.tables.base import new_id
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow


def refuse_pinned(deployment: DeploymentRow) -> None:
    """Raises Pinned: nothing is released until a person lifts the pin."""
    if deployment.pinned:
        raise Pinned(
            f"{deployment.ref} is pinned by {deployment.pinned_by}: {deployment.pin_reason}",
            f"when the cause is mended, lift the pin: slipway deployment unpin {deployment.ref}",
        )


async def promote(unit: Unit, environment: str, name: str, body: Promote) -> Release:
    """Creates a release and starts it. Raises GuardFailed with every reason; nothing is created then."""
    unit.principal.require_environment(environment)
    try:
        ref = parse_version(body.version)
    except ValueError as error:
        raise Invalid(str(error), "for example: slipway promote sentiment@7 --to prod/sentiment") from error
    deployment = await deployments.locked(unit.session, environment, name)
    refuse_pinned(deployment)
    if ref.model != deployment.model:
        raise Invalid(
            f"{deployment.ref} serves the model {deployment.model}, not {ref.model}",
            f"promote a version of {deployment.model}, or create another deployment",
        )
    under_way = await repository.active(unit.session, deployment.id, lock=True)
    if under_way is not None and not body.supersede:
        raise Conflict(
            f"release {under_way.number} of {deployment.ref} is {under_way.phase}",
            "wait for its end, abort it, or promote with supersede (CLI: --supersede)",
        )
    policy = Policy.model_validate(deployment.policy)
    found = await candidate(unit, deployment, ref, policy)
    if under_way is not None:
        await end_active(
            unit,
            deployment,
            under_way,
            ReleaseEvent.SUPERSEDE,
            RouteCause.SUPERSEDE,
            f"{ref} takes its place",
        )
    row = await _create(unit, deployment, found, policy, body)
    if policy.approvals:
        await history.move(unit, row, ReleaseEvent.SUBMIT, waits(policy, ()), by_command=True)
    else:
        await start(unit, deployment, row, found.arm, found.stable)
    made = await represent.release(
        unit.session, row, {arm.id: arm for arm in (found.arm, found.stable) if arm is not None}
    )
    unit.audit("release.promote", row.subject, None, made, body.reason)
    return made


@dataclass(frozen=True)
class Candidate:
    """What a version is released as, at this moment, and what every start guard says to it."""

    arm: Arm
    stable: Arm | None
    guards: tuple[Guard, ...]


async def candidate(unit: Unit, deployment: DeploymentRow, ref: VersionRef, policy: Policy) -> Candidate:
    """Raises GuardFailed with every reason why it can't be released."""
    resolved = await arm_rules.resolve(unit.session, ref)
    nodes = await pool(unit.session, deployment, unit.identity.timeline, unit.resources.settings.node_stale_s)
    stable = await _stable(unit, deployment)
    facts = await _facts(unit, resolved, stable, nodes, policy)
    guards = start_guards(replace(facts, capacity=await _capacity(unit, deployment, resolved, policy)))
    failed = [guard.reason for guard in guards if guard.outcome == "failed"]
    if failed or resolved.arm is None:
        raise GuardFailed(
            f"{ref} can't be released to {deployment.ref}: {'; '.join(failed)}",
            "mend what the reasons name, then try again",
            failed,
        )
    return Candidate(resolved.arm, stable, guards)


async def start(
    unit: Unit, deployment: DeploymentRow, row: ReleaseRow, candidate: Arm, stable: Arm | None
) -> None:
    """→ preparing: every node fetches, verifies, loads and warms the candidate, with no share yet.

    Raises MoveRefused where the release's policy wants more approvals than it has.
    """
    policy = Policy.model_validate(row.policy)
    approved_by = await repository.approved_by(unit.session, row)
    made = await history.route(
        unit,
        deployment,
        row,
        on_trial(stable, candidate, 0),
        RouteCause.FIRST if stable is None else RouteCause.PREPARE,
        f"prepare {candidate.version}@{candidate.precision}",
        stable or candidate,
    )
    await history.move(
        unit,
        row,
        ReleaseEvent.START,
        "nodes load the candidate",
        by_command=True,
        generation=made.fence.generation,
        guards=(approval_guard(policy, approved_by),),
    )


async def _stable(unit: Unit, deployment: DeploymentRow) -> Arm | None:
    if deployment.stable_arm is None:
        return None
    return (await deployments.arms(unit.session, {deployment.stable_arm}))[deployment.stable_arm]


async def _facts(
    unit: Unit, resolved: Resolved, stable: Arm | None, nodes: list[PoolNode], policy: Policy
) -> StartFacts:
    version = resolved.version
    metric = None
    if policy.metrics_gate is not None:
        metric = await _metric(unit, resolved, stable, policy)
    return StartFacts(
        version=version.ref,
        precision=resolved.precision,
        stage=VersionStage(version.phase),
        stage_reason=version.phase_reason,
        engines=resolved.engines,
        refused=resolved.refused,
        nodes=tuple(
            NodeFacts(node.name, node.targets, node.fresh and not node.draining, node.memory_free_bytes)
            for node in nodes
        ),
        policy=policy,
        same_as_stable=stable is not None and resolved.arm is not None and stable.id == resolved.arm.id,
        first=stable is None,
        metric=metric,
        servable=is_servable(VersionContract.model_validate(version.contract)),
    )


async def _capacity(
    unit: Unit, deployment: DeploymentRow, resolved: Resolved, policy: Policy
) -> CapacityFacts | None:
    """None where the policy names no peak, or nothing is there to be measured."""
    if policy.capacity is None or resolved.arm is None:
        return None
    wanted = policy.capacity
    need = Need(wanted.peak_rps, wanted.p99_ms, wanted.price_per_hour)
    reports = await builds.reports_of(unit.session, resolved.arm)
    version = f"{resolved.arm.version}@{resolved.arm.precision}"
    found = await capacity.of_engines(unit, deployment, version, reports, need)
    return CapacityFacts(found.enough, found.says)


async def _metric(unit: Unit, resolved: Resolved, stable: Arm | None, policy: Policy) -> MetricFacts:
    gate = policy.metrics_gate
    assert gate is not None
    candidate = await models.newest_metric(unit.session, resolved.version.ref, gate.dataset, gate.metric)
    other = (
        await models.newest_metric(unit.session, stable.version, gate.dataset, gate.metric)
        if stable is not None
        else None
    )
    return MetricFacts(
        candidate=candidate.value if candidate else None,
        stable=other.value if other else None,
        higher_is_better=candidate.higher_is_better if candidate else True,
    )


async def _create(
    unit: Unit,
    deployment: DeploymentRow,
    found: Candidate,
    policy: Policy,
    body: Promote,
) -> ReleaseRow:
    deployment.last_release += 1
    plan = policy.plan if body.plan is None else body.plan
    row = ReleaseRow(
        id=new_id("rel"),
        deployment_id=deployment.id,
        deployment=deployment.ref,
        number=deployment.last_release,
        phase="draft",
        phase_reason="",
        arm_id=found.arm.id,
        from_arm_id=found.stable.id if found.stable else None,
        policy=policy.model_dump(mode="json"),
        plan=[step.model_dump(mode="json") for step in plan_of(plan, found.stable is None)],
        salt=secrets.token_hex(8),
        guards=[guard.model_dump(mode="json") for guard in found.guards],
        laggards=[],
        left_out=[],
        created_by=unit.actor,
    )
    unit.session.add(row)
    await unit.session.flush()
    return row
