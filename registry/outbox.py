"""What changes tell the world: one outbox row in the transaction of the change, and a wake-up after it.

Nobody calls this at every change: phases come through `advance()`, the rest through `Unit.audit`. The wake-up
follows the commit and is no part of it, because a NOTIFY inside makes commits wait for one another.
"""

import asyncio
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import event as sql_event
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from registry.contract import events
from registry.contract.deployments import Deployment
from registry.contract.engines import Engine
from registry.contract.events import EventOf
from registry.contract.nodes import Node
from registry.contract.releases import Release
from registry.contract.verdicts import Verdict
from registry.contract.versions import Alias
from registry.contract.wire import Wire
from registry.tables.base import Phased
from registry.tables.builds import BuildRow
from registry.tables.deployments import ArmRow
from registry.tables.events import OutboxRow
from registry.tables.models import VersionRow
from registry.tables.releases import ReleaseRow, RollbackRow

D = TypeVar("D", bound=Wire)

SIGNAL = "outbox"
STEP = "step"


class Signal:
    """Set after the commit of a transaction that told something; one per process."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    def attach(self, session: Session) -> None:
        sql_event.listen(session, "after_commit", self._committed)

    def _committed(self, session: Session) -> None:
        if not session.in_nested_transaction():
            self.told.set()


def emit(
    session: AsyncSession,
    kind: type[EventOf[D]],
    subject: str,
    data: D,
    *,
    actor: str,
    deployment: str | None = None,
    environment: str | None = None,
    model: str | None = None,
) -> None:
    """Published if, and once, the transaction commits."""
    session.add(
        OutboxRow(
            type=events.type_of(kind),
            subject=subject,
            deployment=deployment,
            environment=deployment.partition("/")[0] if deployment else environment,
            model=model,
            actor=actor,
            data=data.model_dump(mode="json"),
        )
    )
    signal: Signal | None = session.info.pop(SIGNAL, None)
    if signal is not None:
        signal.attach(session.sync_session)


async def moved(
    session: AsyncSession, row: Phased, event: str, before: str, *, actor: str, reason: str
) -> None:
    """A phase has moved from `before`. Tasks and uploads are nobody's business but the registry's."""
    match row:
        case VersionRow():
            move = events.VersionMove(version=row.ref, from_stage=before, to_stage=row.phase, reason=reason)
            emit(session, events.VersionStageChanged, row.subject, move, actor=actor, model=row.model)
        case BuildRow():
            version = await session.get(VersionRow, row.version_id)
            assert version is not None
            built = events.BuildMove(
                build=row.id, version=version.ref, from_phase=before, to_phase=row.phase, reason=reason
            )
            emit(session, events.BuildPhaseChanged, row.subject, built, actor=actor, model=version.model)
        case ReleaseRow():
            await _release_moved(session, row, event, before, actor, reason)
        case _:
            pass


async def _release_moved(
    session: AsyncSession, row: ReleaseRow, event: str, before: str, actor: str, reason: str
) -> None:
    model, version = await _released(session, row)
    if event == STEP:
        step = events.ReleaseStep(
            release=row.number,
            version=version,
            step=row.step,
            steps=len(row.plan),
            share=_share(row),
            reason=reason,
        )
        _of_release(session, events.ReleaseStepped, row, step, actor, model)
        return
    move = events.ReleaseMove(
        release=row.number,
        version=version,
        from_phase=before,
        to_phase=row.phase,
        step=row.step,
        share=_share(row),
        reason=reason,
    )
    _of_release(session, events.ReleasePhaseChanged, row, move, actor, model)


async def held(session: AsyncSession, row: ReleaseRow, *, actor: str, reason: str) -> None:
    """A release stands still, or goes on."""
    model, version = await _released(session, row)
    hold = events.ReleaseHold(
        release=row.number, version=version, hold=row.hold, step=row.step, share=_share(row), reason=reason
    )
    _of_release(session, events.ReleaseHoldChanged, row, hold, actor, model)


async def judged(session: AsyncSession, row: ReleaseRow, verdict: Verdict, *, actor: str) -> None:
    """The verdict is another one than before."""
    model, version = await _released(session, row)
    told = events.ReleaseVerdict(
        release=row.number,
        version=version,
        kind=verdict.kind,
        sentence=verdict.sentence,
        step=verdict.step,
        canary_requests=verdict.canary_requests,
        stable_requests=verdict.stable_requests,
        pairs=verdict.pairs,
    )
    _of_release(session, events.ReleaseVerdictChanged, row, told, actor, model)


def rolled_back(
    session: AsyncSession,
    deployment: str,
    model: str,
    row: RollbackRow,
    from_versions: tuple[str, ...],
    to_version: str,
) -> None:
    """A rollback was asked for, by a person or by the evidence."""
    facts = events.RollbackFacts(
        rollback=row.id,
        release=row.release,
        from_versions=from_versions,
        to_version=to_version,
        generation=row.generation,
        automatic=row.automatic,
        reason=row.reason,
    )
    emit(
        session,
        events.RollbackAsked,
        f"deployment:{deployment}",
        facts,
        actor=row.asked_by,
        deployment=deployment,
        model=model,
    )


def audited(
    session: AsyncSession,
    action: str,
    subject: str,
    before: BaseModel | None,
    after: BaseModel | None,
    *,
    actor: str,
    reason: str,
) -> None:
    """Of what is audited, the part that people outside care about."""
    match before, after:
        case ((None | Alias()), Alias() | None) if action.startswith("alias."):
            _alias_changed(session, subject, before, after, actor)
        case Deployment(), Deployment() if before.pinned != after.pinned:
            facts = events.PinFacts(pinned=after.pinned, reason=after.pin_reason or reason)
            emit(
                session,
                events.PinChanged,
                subject,
                facts,
                actor=actor,
                deployment=after.ref,
                model=after.model,
            )
        case _, Engine():
            _engine_recorded(session, subject, after, actor)
        case _, Node() if action == "node.enrol":
            node = events.NodeFacts(node=after.id, name=after.name, last_seen_at=after.last_seen_at)
            emit(session, events.NodeEnrolled, subject, node, actor=actor, environment=after.environment)
        case _, Release() if action == "release.approve":
            given = events.ReleaseApproval(
                release=after.number,
                version=f"{after.arm.version}@{after.arm.precision}",
                given=len(after.approvals),
                needed=after.approvals_needed,
                reason=reason,
            )
            emit(
                session,
                events.ReleaseApproved,
                subject,
                given,
                actor=actor,
                deployment=after.deployment,
                model=after.arm.version.partition("@")[0],
            )
        case _:
            pass


def _alias_changed(
    session: AsyncSession, subject: str, before: Alias | None, after: Alias | None, actor: str
) -> None:
    known = after or before
    if known is None or (before and after and before.version == after.version):
        return
    move = events.AliasMove(
        alias=known.name,
        model=known.model,
        before=before.version if before else None,
        after=after.version if after else None,
    )
    emit(session, events.AliasChanged, subject, move, actor=actor, model=known.model)


def _engine_recorded(session: AsyncSession, subject: str, made: Engine, actor: str) -> None:
    facts = events.EngineFacts(
        engine=made.id,
        build=made.build,
        version=made.version,
        precision=made.precision,
        target=made.target,
        digest=made.digest,
        releasable=made.releasable,
        unproven=made.unproven,
        reasons=made.reasons,
    )
    emit(
        session,
        events.EngineRecorded,
        subject,
        facts,
        actor=actor,
        model=made.version.partition("@")[0],
    )


def _of_release(
    session: AsyncSession, kind: type[EventOf[D]], row: ReleaseRow, data: D, actor: str, model: str
) -> None:
    emit(session, kind, row.subject, data, actor=actor, deployment=row.deployment, model=model)


async def _released(session: AsyncSession, row: ReleaseRow) -> tuple[str, str]:
    """(model, MODEL@NUMBER@PRECISION) of a release's candidate."""
    query = (
        select(VersionRow.model, VersionRow.number, ArmRow.precision)
        .join(ArmRow, ArmRow.version_id == VersionRow.id)
        .where(ArmRow.id == row.arm_id)
    )
    found: Any = (await session.execute(query)).one()
    return found.model, f"{found.model}@{found.number}@{found.precision}"


def _share(row: ReleaseRow) -> int:
    return int(row.plan[row.step]["share"]) if 0 <= row.step < len(row.plan) else 0
