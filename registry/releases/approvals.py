"""Approving a release: N people of the policy's role, never its author. The last approval needed starts it.

Nothing here is asked of a rollback or an abort: those need one permitted person, at any moment.
"""

from dataclasses import dataclass

from registry.contract.deployments import Policy
from registry.contract.identity import parse_version
from registry.contract.releases import Reject, Release, ReleasePhase, Transition
from registry.contract.routes import RouteCause
from registry.edge.unit import Unit
from registry.errors import Conflict, Forbidden
from registry.lifecycle.approvals import missing, own_release_guard, waits
from registry.lifecycle.releases import ReleaseEvent
from registry.lifecycle.shares import name_of
from registry.releases import history, repository
from registry.releases.end import arms_of, end_active
from registry.releases.promote import Candidate, candidate, refuse_pinned, start
from registry.releases.steps import located, shown
from registry.tables.deployments import DeploymentRow
from registry.tables.releases import ReleaseRow


@dataclass(frozen=True)
class Approved:
    """`changed`: nothing was approved, since the candidate is not any more what the release was made for.

    That the earlier approvals are void then is kept, which an exception would undo.
    """

    release: Release
    changed: Conflict | None = None


async def approve(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Approved:
    """Counts once per person. Raises Forbidden, Conflict, and GuardFailed where it could not start now."""
    deployment, row = await located(unit, environment, name, number, body.expected_revision)
    policy = _permitted(unit, row)
    against = own_release_guard(row.created_by, unit.actor)
    if against is not None:
        raise Forbidden(against, f"ask another person who has the role {policy.approver_role}")
    given = await repository.approved_by(unit.session, row)
    if unit.actor in given:
        raise Conflict(f"{unit.actor} has approved {row.subject} already", "another person must approve it")
    found = await _candidate_now(unit, deployment, row, policy)
    before = await shown(unit, row)
    if found.arm.id != row.arm_id:
        return await _expire(unit, row, found, policy, before)
    await repository.approve(unit.session, row, unit.actor, body.reason)
    given = given | {unit.actor}
    history.note(unit, row, "approved", body.reason or f"approved by {unit.actor}", by_command=True)
    row.phase_reason = waits(policy, given)
    if missing(policy, given) == 0:
        refuse_pinned(deployment)
        await start(unit, deployment, row, found.arm, found.stable)
    await unit.session.flush()
    after = await shown(unit, row)
    unit.audit("release.approve", row.subject, before, after, body.reason)
    return Approved(after)


async def withdraw(unit: Unit, environment: str, name: str, number: int, body: Transition) -> Release:
    """Takes one's own approval back, as long as the release has not started. Raises Conflict."""
    _, row = await located(unit, environment, name, number, body.expected_revision)
    policy = _permitted(unit, row)
    given = await repository.approved_by(unit.session, row)
    if unit.actor not in given:
        raise Conflict(f"{unit.actor} has not approved {row.subject}", "there is nothing to withdraw")
    before = await shown(unit, row)
    await repository.withdraw(unit.session, row, unit.actor)
    row.phase_reason = waits(policy, given - {unit.actor})
    await unit.session.flush()
    history.note(unit, row, "withdrawn", body.reason or f"withdrawn by {unit.actor}", by_command=True)
    after = await shown(unit, row)
    unit.audit("release.withdraw", row.subject, before, after, body.reason)
    return after


async def reject(unit: Unit, environment: str, name: str, number: int, body: Reject) -> Release:
    """One person's no ends the release. Raises Conflict for one's own, which is aborted instead."""
    deployment, row = await located(unit, environment, name, number, body.expected_revision)
    _permitted(unit, row)
    if row.created_by == unit.actor:
        raise Conflict(
            f"{row.subject} is {unit.actor}'s own release",
            f"end it: slipway release abort {deployment.ref} --number {row.number}",
        )
    before = await shown(unit, row)
    await end_active(
        unit,
        deployment,
        row,
        ReleaseEvent.REJECT,
        RouteCause.ABORT,
        f"rejected by {unit.actor}: {body.reason}",
    )
    after = await shown(unit, row)
    unit.audit("release.reject", row.subject, before, after, body.reason)
    return after


def _permitted(unit: Unit, row: ReleaseRow) -> Policy:
    """The release's policy, when its role is the caller's and the release still waits."""
    policy = Policy.model_validate(row.policy)
    unit.principal.require(policy.approver_role)
    if row.phase != ReleasePhase.AWAITING_APPROVAL:
        raise Conflict(f"{row.subject} is {row.phase}, it awaits no approval", "there is nothing to decide")
    return policy


async def _candidate_now(unit: Unit, deployment: DeploymentRow, row: ReleaseRow, policy: Policy) -> Candidate:
    """What the release would start with: days may lie between promoting and approving."""
    promoted, _ = await arms_of(unit, row)
    return await candidate(unit, deployment, parse_version(name_of(promoted)), policy)


async def _expire(unit: Unit, row: ReleaseRow, found: Candidate, policy: Policy, before: Release) -> Approved:
    """The release is for the new arm from now on, and nobody has approved that."""
    what = name_of(found.arm)
    reason = f"{what} has other engines than when it was promoted; approvals given before are void"
    await repository.bind_approvals(unit.session, row)
    row.arm_id = found.arm.id
    row.guards = [guard.model_dump(mode="json") for guard in found.guards]
    row.phase_reason = waits(policy, ())
    await unit.session.flush()
    history.note(unit, row, "rearmed", reason, by_command=False)
    after = await shown(unit, row)
    unit.audit("release.rearm", row.subject, before, after, reason)
    conflict = Conflict(
        reason, f"look at release {row.number} again, then approve it: it is for the new engines now"
    )
    return Approved(after, conflict)
