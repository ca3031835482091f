"""The nodes that serve a deployment, as their newest reports tell it: what guards and the controller ask."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.nodes import Report, SlotPhase, SlotReport
from registry.tables.deployments import DeploymentRow
from registry.tables.nodes import AppliedRow, NodeRow


@dataclass(frozen=True)
class PoolNode:
    """`fresh` False: what else is said here is old. `switched_at`, `drained_at`: of the deployment's newest
    generation."""

    id: str
    name: str
    address: str
    targets: tuple[str, ...]
    fresh: bool
    draining: bool
    last_seen_at: datetime | None
    memory_free_bytes: int | None
    slots: dict[str, SlotReport]
    switched_at: datetime | None
    drained_at: datetime | None

    def ready(self, arm: str) -> bool:
        slot = self.slots.get(arm)
        return slot is not None and slot.phase is SlotPhase.READY

    def failure(self, arm: str) -> str | None:
        slot = self.slots.get(arm)
        return slot.reason if slot is not None and slot.phase is SlotPhase.FAILED else None


async def pool(
    session: AsyncSession, deployment: DeploymentRow, timeline: int, stale_s: float
) -> list[PoolNode]:
    """All nodes of the environment that carry the selector's labels, by name."""
    rows = await session.execute(
        select(
            NodeRow,
            AppliedRow,
            (NodeRow.reported_at > func.clock_timestamp() - timedelta(seconds=stale_s)).label("fresh"),
        )
        .outerjoin(
            AppliedRow,
            (AppliedRow.node_id == NodeRow.id)
            & (AppliedRow.deployment_id == deployment.id)
            & (AppliedRow.timeline == timeline)
            & (AppliedRow.generation == deployment.generation),
        )
        .where(
            NodeRow.environment == deployment.environment,
            NodeRow.labels.contains(deployment.selector),
        )
        .order_by(NodeRow.name)
        .execution_options(populate_existing=True)
    )
    return [_pool_node(node, applied, bool(fresh), deployment.ref) for node, applied, fresh in rows]


def _pool_node(node: NodeRow, applied: AppliedRow | None, fresh: bool, deployment: str) -> PoolNode:
    report = Report.model_validate(node.report) if node.report else None
    slots = {slot.arm: slot for slot in report.slots if slot.deployment == deployment} if report else {}
    return PoolNode(
        id=node.id,
        name=node.name,
        address=node.address,
        targets=tuple(node.targets),
        fresh=fresh,
        draining=node.draining,
        last_seen_at=node.last_seen_at,
        memory_free_bytes=report.memory_free_bytes if report else None,
        slots=slots,
        switched_at=applied.switched_at if applied else None,
        drained_at=applied.drained_at if applied else None,
    )
