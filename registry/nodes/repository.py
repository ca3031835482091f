"""Queries on nodes and enrolments."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from registry.lifecycle.releases import ACTIVE_PHASES
from registry.listen import Channel
from registry.tables.access import EnrolmentRow, TokenRow
from registry.tables.deployments import DeploymentRow
from registry.tables.nodes import AppliedRow, NodeRow
from registry.tables.releases import ReleaseRow


async def now(session: AsyncSession) -> datetime:
    """The database's clock."""
    found: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return found


async def node(session: AsyncSession, node_id: str, *, lock: bool = False) -> NodeRow | None:
    query = select(NodeRow).where(NodeRow.id == node_id).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def node_named(session: AsyncSession, environment: str, name: str) -> NodeRow | None:
    """Locked."""
    query = select(NodeRow).where(NodeRow.environment == environment, NodeRow.name == name)
    return (await session.execute(query.with_for_update())).scalar_one_or_none()


async def nodes(
    session: AsyncSession, environments: Collection[str], after: str | None, limit: int
) -> Sequence[NodeRow]:
    """In order of enrolment, one more than `limit`. No environments: all of them."""
    query = select(NodeRow).order_by(NodeRow.id).limit(limit + 1)
    if environments:
        query = query.where(NodeRow.environment.in_(environments))
    if after is not None:
        query = query.where(NodeRow.id > after)
    return (await session.execute(query)).scalars().all()


async def serving(
    session: AsyncSession, deployment: DeploymentRow, timeline: int
) -> list[tuple[NodeRow, AppliedRow | None]]:
    """The nodes that a deployment applies to, by name, and what they confirmed of its newest generation."""
    found = await session.execute(
        select(NodeRow, AppliedRow)
        .outerjoin(
            AppliedRow,
            (AppliedRow.node_id == NodeRow.id)
            & (AppliedRow.deployment_id == deployment.id)
            & (AppliedRow.timeline == timeline)
            & (AppliedRow.generation == deployment.generation),
        )
        .where(NodeRow.environment == deployment.environment, NodeRow.labels.contains(deployment.selector))
        .order_by(NodeRow.name)
    )
    return [(row, applied) for row, applied in found]


async def left_out(session: AsyncSession, deployment_id: str) -> frozenset[str]:
    """Ids of the nodes that the active release goes without."""
    found = await session.execute(
        select(ReleaseRow.left_out).where(
            ReleaseRow.deployment_id == deployment_id, ReleaseRow.phase.in_(ACTIVE_PHASES)
        )
    )
    return frozenset(node for nodes in found.scalars() for node in nodes)


async def enrolment(session: AsyncSession, secret_hash: bytes) -> tuple[EnrolmentRow, bool] | None:
    """Locked, with whether it has expired."""
    found = (
        await session.execute(
            select(EnrolmentRow, EnrolmentRow.expires_at <= func.now())
            .where(EnrolmentRow.hash == secret_hash)
            .with_for_update()
        )
    ).one_or_none()
    return None if found is None else (found[0], found[1])


_PENDING = (EnrolmentRow.used_at.is_(None), EnrolmentRow.expires_at > func.now())


async def pending_enrolments(
    session: AsyncSession, environments: Collection[str], after: str | None, limit: int
) -> Sequence[EnrolmentRow]:
    """Oldest first, one more than `limit`. No environments: all of them."""
    query = select(EnrolmentRow).where(*_PENDING)
    if environments:
        query = query.where(EnrolmentRow.environment.in_(environments))
    if after is not None:
        query = query.where(EnrolmentRow.id > after)
    return (await session.execute(query.order_by(EnrolmentRow.id).limit(limit + 1))).scalars().all()


async def pending_enrolment(session: AsyncSession, enrolment_id: str) -> EnrolmentRow | None:
    """Locked, as `enrolment` locks it: a node enrols with it, or it is revoked."""
    query = select(EnrolmentRow).where(EnrolmentRow.id == enrolment_id, *_PENDING)
    return (await session.execute(query.with_for_update())).scalar_one_or_none()


async def revoke_tokens(session: AsyncSession, node_id: str) -> None:
    """From the commit on, in every process."""
    revoked = await session.execute(
        update(TokenRow)
        .where(TokenRow.node_id == node_id, TokenRow.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .returning(TokenRow.id)
        .execution_options(synchronize_session=False)
    )
    for token in revoked.scalars().all():
        await session.execute(select(func.pg_notify(Channel.TOKENS, token)))


async def notify(session: AsyncSession, node_id: str) -> None:
    """Tells every process at the commit that a node's facts changed."""
    await session.execute(select(func.pg_notify(Channel.NODES, node_id)))
