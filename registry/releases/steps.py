"""Moving a release: by a person's command, or by the controller for what nodes and evidence say."""

from registry import outbox
from registry.contract.deployments import PlanStep
from registry.contract.releases import Hold, Release, Transition
from registry.contract.routes import RouteCause
from registry.deployments import service as deployments
from registry.edge.unit import Unit, expect_revision
from registry.errors import Conflict, GuardFailed
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import exhausted, is_last, name_of, on_trial, settled
from registry.releases import history, repository, trial
from registry.releases.end import arms_of, end_active
from registry.releases.promote import refuse_pinned
from registry.releases.represent import release as represent_release
from registry.tables.deployments import DeploymentRow
from registry.tables.journal import MoveRefused
from registry.tables.releases import ReleaseRow


async def located(
    unit: Unit, environment: str, name: str, number: int, expected_revision: int | None
) -> tuple[DeploymentRow, ReleaseRow]:
    """Both rows, locked. Raises NotFound, Conflict where the release is at another revision."""
    unit.principal.require_environment(environment)
    deployment = await deployments.locked(unit.session, environment, name)
    found = await repository.get(unit.session, deployment, number)
    row = await repository.lock(unit.session, found.id)
    expect_revision(row.revision, expected_revision, f"release {number} of {deployment.ref}")
    return deployment, row


async def shown(unit: Unit, row: ReleaseRow) -> Release:
    candidate, stable = await arms_of(unit, row)
    return await represent_release(
        unit.session, row, {arm.id: arm for arm in (candidate, stable) if arm is not None}
    )


async def advance(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Release:
    """The next step by command: also from a hold, a pause or a freeze; recorded as a command."""
    deployment, row = await located(unit, environment, name, number, body.expected_revision)
    refuse_pinned(deployment)
    before = await shown(unit, row)
    await step_forward(unit, deployment, row, body.reason or f"advanced by {unit.actor}", by_command=True)
    after = await shown(unit, row)
    unit.audit("release.advance", row.subject, before, after, body.reason)
    return after


def plan_ended(row: ReleaseRow) -> str | None:
    """Why the release can go no further, where its plan ends below everything."""
    return exhausted([PlanStep.model_validate(step) for step in row.plan], row.step)


async def step_forward(
    unit: Unit, deployment: DeploymentRow, row: ReleaseRow, reason: str, *, by_command: bool
) -> None:
    """To the plan's next share. The last step leads to `completing`."""
    plan = [PlanStep.model_validate(step) for step in row.plan]
    ended = plan_ended(row)
    if ended is not None:
        raise MoveRefused(row.subject, [ended])
    if row.step < 0 and row.phase == "preparing":
        event = ReleaseEvent.PREPARED
    else:
        event = ReleaseEvent.LAST_STEP if is_last(plan, row.step + 1) else ReleaseEvent.STEP
    if row.moves.target(row.phase, event) is None:
        raise MoveRefused(row.subject, [row.moves.refusal(row.phase, event)])
    if event is ReleaseEvent.PREPARED and by_command:
        raise GuardFailed(
            f"release {row.number} of {row.deployment} is preparing: nodes are still loading the candidate",
            f"see which: slipway deployment status {deployment.ref}; the first step follows by itself",
        )
    candidate, stable = await arms_of(unit, row)
    row.step += 1
    if event is ReleaseEvent.PREPARED and stable is not None:
        await trial.begin(unit.session, deployment, row, candidate, stable)
    share = plan[row.step].share
    made = await history.route(
        unit,
        deployment,
        row,
        on_trial(stable, candidate, share),
        RouteCause.STEP,
        f"{name_of(candidate)} to {share / 100:g} %",
        stable or candidate,
    )
    await history.move(unit, row, event, reason, by_command=by_command, generation=made.fence.generation)
    if event is ReleaseEvent.PREPARED and is_last(plan, row.step):
        await history.move(unit, row, ReleaseEvent.LAST_STEP, "the only step", by_command=False)


async def complete(unit: Unit, deployment: DeploymentRow, row: ReleaseRow, laggards: list[str]) -> None:
    """The good end: the candidate becomes stable, what was stable becomes the last good arm."""
    candidate, stable = await arms_of(unit, row)
    reason = "every node serves it" if not laggards else f"laggards: {', '.join(laggards)}"
    row.laggards = laggards
    deployment.stable_arm = candidate.id
    if stable is not None:
        deployment.last_good_arm = stable.id
    made = await history.route(
        unit,
        deployment,
        row,
        settled(candidate, stable),
        RouteCause.COMPLETE,
        f"{name_of(candidate)} is stable",
        candidate,
    )
    await history.move(
        unit, row, ReleaseEvent.CONVERGED, reason, by_command=False, generation=made.fence.generation
    )


async def hold(unit: Unit, row: ReleaseRow, why: Hold, reason: str, *, by_command: bool) -> None:
    """A running release stands still; its shares stay as they are."""
    if row.phase not in ("preparing", "running"):
        raise Conflict(
            f"release {row.number} of {row.deployment} is {row.phase.replace('_', ' ')}; "
            f"only a running one can be {why}",
            "a completed one can be rolled back",
        )
    if row.hold == why:
        return
    row.hold = why
    row.phase_reason = reason
    await unit.session.flush()
    history.note(unit, row, why, reason, by_command=by_command)
    await outbox.held(unit.session, row, actor=unit.actor, reason=reason)


async def pause(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Release:
    _, row = await located(unit, environment, name, number, body.expected_revision)
    before = await shown(unit, row)
    await hold(unit, row, Hold.PAUSED, body.reason or f"paused by {unit.actor}", by_command=True)
    after = await shown(unit, row)
    unit.audit("release.pause", row.subject, before, after, body.reason)
    return after


async def resume(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Release:
    _, row = await located(unit, environment, name, number, body.expected_revision)
    if not row.hold:
        raise Conflict(f"release {row.number} of {row.deployment} is not held", "there is nothing to resume")
    before = await shown(unit, row)
    row.hold = history.NO_HOLD
    row.phase_reason = body.reason or f"resumed by {unit.actor}"
    await unit.session.flush()
    history.note(unit, row, "resumed", row.phase_reason, by_command=True)
    await outbox.held(unit.session, row, actor=unit.actor, reason=row.phase_reason)
    after = await shown(unit, row)
    unit.audit("release.resume", row.subject, before, after, body.reason)
    return after


async def abort(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Release:
    """Stable takes everything; automation stays on. One permitted person is enough."""
    deployment, row = await located(unit, environment, name, number, body.expected_revision)
    before = await shown(unit, row)
    reason = body.reason or f"aborted by {unit.actor}"
    await end_active(unit, deployment, row, ReleaseEvent.ABORT, RouteCause.ABORT, reason)
    after = await shown(unit, row)
    unit.audit("release.abort", row.subject, before, after, body.reason)
    return after
