"""Roll back: from every phase, to the last good arm or an explicit earlier one, in one transaction."""

import re
import secrets
from dataclasses import dataclass

from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from registry import outbox
from registry.contract.deployments import Arm
from registry.contract.identity import ARM_PATTERN, parse_version
from registry.contract.releases import RollBack
from registry.contract.routes import RouteCause
from registry.deployments import routing
from registry.deployments import service as deployments
from registry.deployments.arms import contract_of
from registry.deployments.fitness import rollback_target, unfit
from registry.edge.unit import Unit
from registry.errors import Conflict, Invalid
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import name_of, settled
from registry.nodes.pool import pool
from registry.releases import history, repository
from registry.releases.end import arms_of
from registry.releases.fitness import refuse_unfit
from registry.tables.base import new_id
from registry.tables.deployments import DeploymentRow
from registry.tables.journal import AuditRow
from registry.tables.releases import ReleaseRow, RollbackNodeRow, RollbackRow

LOCK_TIMEOUT_MS = 500
LOCK_ATTEMPTS = 10
LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True)
class Pressed:
    """`already`: someone was first, or nothing had to be done; the press changed nothing."""

    rollback_id: str
    already: bool


async def lock_deployment(session: AsyncSession, environment: str, name: str) -> DeploymentRow:
    """The deployment's row within short, repeated waits: nothing holds it for long.

    Each attempt is a savepoint, so that a time-out leaves the transaction usable.
    """
    await session.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
    for attempt in range(LOCK_ATTEMPTS):
        try:
            async with session.begin_nested():
                return await deployments.locked(session, environment, name)
        except OperationalError as error:
            state = getattr(error.orig, "sqlstate", None)
            if state != LOCK_NOT_AVAILABLE or attempt == LOCK_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


async def roll_back(unit: Unit, environment: str, name: str, body: RollBack, *, automatic: bool) -> Pressed:
    """The caller commits. Raises Conflict where there is nothing to go back to, with what is possible, and
    GuardFailed where what there is was quarantined or archived."""
    unit.principal.require_environment(environment)
    deployment = await lock_deployment(unit.session, environment, name)
    if body.to is None and deployment.pinned and deployment.pin_rollback is not None:
        return Pressed(deployment.pin_rollback, already=True)
    if body.expected_generation is not None and body.expected_generation != deployment.generation:
        raise Conflict(
            f"{deployment.ref} is at generation {deployment.generation}, not {body.expected_generation}",
            "look again, or press without expected_generation",
        )
    release = await repository.active(unit.session, deployment.id, lock=True)
    target = await _target(unit, deployment, release, body.to)
    if not body.allow_unfit:
        await refuse_unfit(unit, deployment, release, target)
    if release is None and deployment.stable_arm == target.id:
        if deployment.pin_rollback is not None:
            return Pressed(deployment.pin_rollback, already=True)
        raise await _nothing_to_do(unit, deployment, f"{name_of(target)} is stable already")
    return Pressed(await _carry_out(unit, deployment, release, target, body, automatic), already=False)


async def _nothing_to_do(unit: Unit, deployment: DeploymentRow, why: str) -> Conflict:
    served = await deployments.arms_served(unit.session, deployment.id)
    arms = await deployments.arms(unit.session, set(served))
    others = [name_of(arms[arm]) for arm in served if arm != deployment.stable_arm]
    hint = (
        f"name one of {', '.join(others)}: slipway rollback {deployment.ref} --to {others[0]}"
        if others
        else "no other version has had all traffic here; to replace it, promote another one: "
        f"slipway promote {deployment.model}@NUMBER --to {deployment.ref}"
    )
    return Conflict(f"{deployment.ref}: {why}, and nothing is under way", hint, others)


async def _target(unit: Unit, deployment: DeploymentRow, release: ReleaseRow | None, to: str | None) -> Arm:
    """During a release its stable, else the last good arm or the newest fit one before it; or the explicit
    one, which must have served."""
    if to is not None:
        return await _explicit(unit, deployment, to)
    wanted = release.from_arm_id if release is not None else deployment.last_good_arm
    if wanted is None:
        if release is not None:
            raise Conflict(
                f"{deployment.ref} has no earlier version: release {release.number} is its first one",
                f"abort it: slipway release abort {deployment.ref} --number {release.number}",
            )
        raise await _nothing_to_do(unit, deployment, "there is no earlier good version")
    arm = (await deployments.arms(unit.session, {wanted}))[wanted]
    if release is not None:
        return arm
    target = await rollback_target(unit.session, deployment, arm)
    if target is None:
        raise await _nothing_to_do(
            unit, deployment, "an earlier rollback chose what is stable, and nothing is known good before it"
        )
    return target


async def _explicit(unit: Unit, deployment: DeploymentRow, to: str) -> Arm:
    served = await deployments.arms_served(unit.session, deployment.id)
    arms = await deployments.arms(unit.session, set(served))
    if re.match(ARM_PATTERN, to):
        found = [arms[arm] for arm in served if arm == to]
    else:
        try:
            ref = parse_version(to)
        except ValueError as error:
            raise Invalid(str(error), "name a version that has served here, or an arm") from error
        found = [
            arms[arm]
            for arm in served
            if arms[arm].version == f"{ref.model}@{ref.number}"
            and ref.precision in (None, arms[arm].precision)
        ]
    if not found:
        names = [name_of(arms[arm]) for arm in served]
        raise Conflict(
            f"{to} has never served all traffic of {deployment.ref}",
            f"possible targets: {', '.join(names) or 'none'}; for anything else: slipway promote",
            names,
        )
    return found[0]


async def _carry_out(
    unit: Unit,
    deployment: DeploymentRow,
    release: ReleaseRow | None,
    target: Arm,
    body: RollBack,
    automatic: bool,
) -> str:
    """Route, release, pin, receipt and audit: all of it, or nothing."""
    before = await deployments.represent(unit.session, deployment, release.number if release else None)
    leaving = await _leaving(unit, deployment, release, target)
    ended = release or (
        await repository.completed_of_arm(unit.session, deployment.id, deployment.stable_arm)
        if deployment.stable_arm
        else None
    )
    reason = body.reason or f"rolled back by {unit.actor}"
    made = await routing.append(
        unit.session,
        deployment,
        unit.identity,
        settled(target, None),
        cause=RouteCause.ROLL_BACK,
        actor=unit.actor,
        reason=reason,
        salt=secrets.token_hex(8),
        edges=routing.edges_of(await contract_of(unit.session, target)),
        release=ended.number if ended else None,
    )
    rollback = await _keep_receipt(
        unit, deployment, made.fence.generation, leaving, target, reason, automatic, ended
    )
    rollback.notes = await _passed_over(unit, deployment, release, target, body)
    outbox.rolled_back(
        unit.session,
        deployment.ref,
        deployment.model,
        rollback,
        tuple(name_of(arm) for arm in leaving),
        name_of(target),
    )
    deployment.stable_arm = target.id
    deployment.pinned, deployment.pin_reason = True, reason
    deployment.pinned_by, deployment.pin_rollback = unit.actor, rollback.id
    if ended is not None:
        ended.generation = made.fence.generation
        await history.move(
            unit,
            ended,
            ReleaseEvent.ROLL_BACK,
            reason,
            by_command=not automatic,
            generation=made.fence.generation,
        )
    after = await deployments.represent(unit.session, deployment)
    unit.audit("deployment.roll_back", deployment.subject, before, after, reason)
    return rollback.id


async def _passed_over(
    unit: Unit, deployment: DeploymentRow, release: ReleaseRow | None, target: Arm, body: RollBack
) -> list[str]:
    """What the receipt says where a press went past the last good arm."""
    last_good = deployment.last_good_arm
    if body.to is not None or release is not None or last_good in (None, target.id):
        return []
    assert last_good is not None
    passed = (await deployments.arms(unit.session, {last_good}))[last_good]
    return [f"went past {name_of(passed)}, the last good one: {await unfit(unit.session, passed)}"]


async def _keep_receipt(
    unit: Unit,
    deployment: DeploymentRow,
    generation: int,
    leaving: list[Arm],
    target: Arm,
    reason: str,
    automatic: bool,
    ended: ReleaseRow | None,
) -> RollbackRow:
    """The receipt, with every node of the pool still awaited."""
    nodes = await pool(unit.session, deployment, unit.identity.timeline, unit.resources.settings.node_stale_s)
    rollback = RollbackRow(
        id=new_id("rbk"),
        deployment_id=deployment.id,
        generation=generation,
        asked_at=await repository.began(unit.session),
        asked_by=unit.actor,
        reason=reason,
        automatic=automatic,
        release=ended.number if ended else None,
        from_arms=[arm.id for arm in leaving],
        to_arm=target.id,
        notes=[],
    )
    unit.session.add(rollback)
    await unit.session.flush()
    for node in nodes:
        unit.session.add(
            RollbackNodeRow(
                rollback_id=rollback.id,
                node_id=node.id,
                name=node.name,
                cold=not node.ready(target.id),
                last_known_version=name_of(leaving[0]) if leaving else None,
            )
        )
    return rollback


async def _leaving(
    unit: Unit, deployment: DeploymentRow, release: ReleaseRow | None, target: Arm
) -> list[Arm]:
    """The arms that lose their traffic."""
    if release is not None:
        candidate, stable = await arms_of(unit, release)
        arms = [candidate, *([stable] if stable is not None else [])]
    else:
        assert deployment.stable_arm is not None
        arms = list((await deployments.arms(unit.session, {deployment.stable_arm})).values())
    return [arm for arm in arms if arm.id != target.id]


async def pressed_in_vain(unit: Unit, rollback_id: str) -> None:
    """The audit says that someone pressed, too."""
    row = await repository.rollback(unit.session, rollback_id)
    subject = (
        await unit.session.execute(select(DeploymentRow).where(DeploymentRow.id == row.deployment_id))
    ).scalar_one()
    unit.session.add(
        AuditRow(
            actor=unit.actor,
            action="deployment.roll_back.already",
            subject=subject.subject,
            before=None,
            after={"rollback": rollback_id},
            reason="the press changed nothing",
            via=unit.via,
            request_id=unit.request_id,
        )
    )
