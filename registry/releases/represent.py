"""Rows → `contract.releases.Release`."""

from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.deployments import Arm, PlanStep, Policy
from registry.contract.releases import Approval, Guard, Hold, Release, ReleasePhase, StepChange
from registry.contract.verdicts import Verdict
from registry.releases import repository
from registry.tables.releases import ReleaseChangeRow, ReleaseRow


def share_of(row: ReleaseRow) -> int:
    """Basis points of the step that the release stands on."""
    return int(row.plan[row.step]["share"]) if 0 <= row.step < len(row.plan) else 0


def change(row: ReleaseChangeRow) -> StepChange:
    return StepChange(
        at=row.at,
        phase=ReleasePhase(row.phase),
        hold=row.hold,
        step=row.step,
        share=row.share,
        cause=row.cause,
        actor=row.actor,
        reason=row.reason,
        by_command=row.by_command,
        generation=row.generation,
    )


async def release(session: AsyncSession, row: ReleaseRow, arms: dict[str, Arm]) -> Release:
    """`arms` must hold the release's own two."""
    approvals = await repository.approvals(session, row.id)
    policy = Policy.model_validate(row.policy)
    return Release(
        deployment=row.deployment,
        number=row.number,
        id=row.id,
        arm=arms[row.arm_id],
        from_arm=arms.get(row.from_arm_id or ""),
        phase=ReleasePhase(row.phase),
        hold=Hold(row.hold) if row.hold else "",
        reason=row.phase_reason,
        since=row.phase_since,
        step=row.step,
        share=share_of(row),
        plan=tuple(PlanStep.model_validate(step) for step in row.plan),
        guards=tuple(Guard.model_validate(guard) for guard in row.guards),
        approvals=tuple(
            Approval(by=each.by, at=each.at, reason=each.reason, arm=each.arm_id)
            for each in approvals
            if repository.counts(row, each)
        ),
        approvals_needed=policy.approvals,
        approver_role=policy.approver_role,
        verdict=Verdict.model_validate(row.verdict) if row.verdict else None,
        laggards=tuple(row.laggards),
        history=tuple(change(entry) for entry in await repository.changes(session, row.id)),
        evidence_from=row.evidence_from,
        revision=row.revision,
        created_at=row.created_at,
        created_by=row.created_by,
    )
