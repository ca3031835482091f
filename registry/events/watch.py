"""Facts that no transaction tells: a node fell silent or came back, every node has confirmed a rollback.

Each is told once; what was told is kept beside it, in one transaction.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import Integer, and_, cast, delete, exists, func, literal, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import Text

from registry import outbox
from registry.contract.events import (
    EventOf,
    NodeBack,
    NodeFacts,
    NodeLost,
    RollbackDrained,
    RollbackProgress,
    RollbackSwitched,
)
from registry.tables.deployments import ArmRow, DeploymentRow
from registry.tables.events import WatchedRow
from registry.tables.models import VersionRow
from registry.tables.nodes import NodeRow
from registry.tables.releases import RollbackNodeRow, RollbackRow

ACTOR = "registry"
LOST = "lost"
SWITCHED = "switched"
DRAINED = "drained"
# Later confirmations are on the receipt; nobody waits for a message about them.
AWAITED = timedelta(days=1)


async def nodes(session: AsyncSession, stale_s: float) -> None:
    """Tells of nodes whose last report is older than `stale_s`, and of those that report again."""
    fresh = NodeRow.reported_at >= func.now() - timedelta(seconds=stale_s)
    subject = literal("node:", Text).concat(NodeRow.id)
    told = exists().where(WatchedRow.subject == subject, WatchedRow.fact == LOST)
    lost = await session.execute(select(NodeRow).where(NodeRow.reported_at.is_not(None), ~fresh, ~told))
    for row in lost.scalars().all():
        if await _first(session, f"node:{row.id}", LOST):
            _tell_node(session, NodeLost, row)
    back = await session.execute(select(NodeRow).where(fresh, told))
    for row in back.scalars().all():
        await session.execute(
            delete(WatchedRow)
            .where(WatchedRow.subject == f"node:{row.id}", WatchedRow.fact == LOST)
            .execution_options(synchronize_session=False)
        )
        _tell_node(session, NodeBack, row)


def _tell_node(session: AsyncSession, kind: type[EventOf[NodeFacts]], row: NodeRow) -> None:
    facts = NodeFacts(node=row.id, name=row.name, last_seen_at=row.last_seen_at)
    outbox.emit(session, kind, f"node:{row.id}", facts, actor=ACTOR, environment=row.environment)


async def rollbacks(session: AsyncSession, stale_s: float) -> None:
    """Tells when every node in contact has switched, and when every one has drained."""
    for row in await _open(session, stale_s):
        for moment, kind in ((SWITCHED, RollbackSwitched), (DRAINED, RollbackDrained)):
            confirmed, awaited = row[f"{moment}_n"], row[f"{moment}_awaited"]
            if awaited or (row["nodes"] and not confirmed):
                continue
            if not await _first(session, f"rollback:{row['id']}", moment):
                continue
            last = row[f"{moment}_last"]
            facts = RollbackProgress(
                rollback=row["id"],
                to_version=f"{row['model']}@{row['number']}@{row['precision']}",
                generation=row["generation"],
                nodes=row["nodes"],
                confirmed=confirmed,
                unreachable=tuple(row[f"{moment}_silent"] or ()),
                after_ms=round((last - row["asked_at"]).total_seconds() * 1000, 3) if last else None,
            )
            ref = f"{row['environment']}/{row['name']}"
            outbox.emit(
                session,
                kind,
                f"deployment:{ref}",
                facts,
                actor=ACTOR,
                deployment=ref,
                model=row["model"],
            )


async def _open(session: AsyncSession, stale_s: float) -> list[dict[str, Any]]:
    """Rollbacks of late whose end has not been told, with how far their nodes are."""
    told = exists().where(
        WatchedRow.subject == literal("rollback:", Text).concat(RollbackRow.id), WatchedRow.fact == DRAINED
    )
    fresh = func.coalesce(NodeRow.reported_at >= func.now() - timedelta(seconds=stale_s), False)
    counted = []
    for moment, column in ((SWITCHED, RollbackNodeRow.switched_at), (DRAINED, RollbackNodeRow.drained_at)):
        missing = and_(column.is_(None), RollbackNodeRow.node_id.is_not(None))
        counted += [
            func.count(column).label(f"{moment}_n"),
            func.count().filter(missing, fresh).label(f"{moment}_awaited"),
            func.array_agg(RollbackNodeRow.name).filter(missing, ~fresh).label(f"{moment}_silent"),
            func.max(column).label(f"{moment}_last"),
        ]
    query = (
        select(
            RollbackRow.id,
            RollbackRow.generation,
            RollbackRow.asked_at,
            DeploymentRow.environment,
            DeploymentRow.name,
            VersionRow.model,
            VersionRow.number,
            ArmRow.precision,
            cast(func.count(RollbackNodeRow.node_id), Integer).label("nodes"),
            *counted,
        )
        .join(DeploymentRow, DeploymentRow.id == RollbackRow.deployment_id)
        .join(ArmRow, ArmRow.id == RollbackRow.to_arm)
        .join(VersionRow, VersionRow.id == ArmRow.version_id)
        .outerjoin(RollbackNodeRow, RollbackNodeRow.rollback_id == RollbackRow.id)
        .outerjoin(NodeRow, NodeRow.id == RollbackNodeRow.node_id)
        .where(RollbackRow.asked_at > func.now() - AWAITED, ~told)
        .group_by(RollbackRow.id, DeploymentRow.id, VersionRow.id, ArmRow.id)
        .order_by(RollbackRow.asked_at)
    )
    return [dict(row) for row in (await session.execute(query)).mappings()]


async def _first(session: AsyncSession, subject: str, fact: str) -> bool:
    """True once: then it is to be told."""
    made = await session.execute(
        insert(WatchedRow)
        .values(subject=subject, fact=fact)
        .on_conflict_do_nothing()
        .returning(WatchedRow.subject)
    )
    return made.first() is not None


async def forget(session: AsyncSession) -> None:
    """Drops what was told of rollbacks that nobody looks at any more."""
    await session.execute(
        delete(WatchedRow)
        .where(
            or_(WatchedRow.fact == SWITCHED, WatchedRow.fact == DRAINED),
            WatchedRow.at < func.now() - 2 * AWAITED,
        )
        .execution_options(synchronize_session=False)
    )
