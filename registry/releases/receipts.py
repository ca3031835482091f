"""The receipt: who asked when, from → to, and per node when it switched and when it was drained."""

from datetime import datetime
from typing import Literal

from registry.contract.deployments import Arm
from registry.contract.releases import Receipt, ReceiptNode
from registry.deployments import service as deployments
from registry.edge.unit import Unit
from registry.lifecycle.shares import name_of
from registry.nodes.pool import PoolNode, pool
from registry.releases import repository
from registry.tables.releases import RollbackNodeRow, RollbackRow


def _ms(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else round((end - start).total_seconds() * 1000, 3)


def _state(row: RollbackNodeRow, silent: bool) -> Literal["waiting", "switched", "drained", "unreachable"]:
    if row.drained_at is not None:
        return "drained"
    if silent:
        return "unreachable"
    return "switched" if row.switched_at is not None else "waiting"


def _node(row: RollbackNodeRow, asked_at: datetime, live: PoolNode | None) -> ReceiptNode:
    silent = live is None or not live.fresh
    return ReceiptNode(
        node=row.node_id,
        name=row.name,
        state=_state(row, silent),
        switched_ms=_ms(asked_at, row.switched_at),
        drained_ms=_ms(asked_at, row.drained_at),
        unreachable_since=live.last_seen_at if silent and live is not None and not row.drained_at else None,
        cold=row.cold,
        last_known_version=row.last_known_version,
    )


def closing(asked_at: datetime, nodes: tuple[ReceiptNode, ...], rows: list[RollbackNodeRow], to: Arm) -> str:
    """The last sentence; empty while a reachable node is still awaited."""
    if any(node.state in ("waiting", "switched") for node in nodes):
        return ""
    done = [node for node in nodes if node.state == "drained"]
    silent = [node for node in nodes if node.state == "unreachable"]
    if silent:
        names = ", ".join(
            f"{node.name} silent since {node.unreachable_since:%H:%M:%SZ}, "
            f"its last known version is {node.last_known_version or 'unknown'}"
            if node.unreachable_since
            else f"{node.name} never reported"
            for node in silent
        )
        return f"{len(done)} of {len(nodes)} nodes serve {name_of(to)}; {names}"
    if not done:
        return f"No node serves this deployment; the first one that comes gets {name_of(to)}"
    switched = max(row.switched_at for row in rows if row.switched_at)
    drained = max(row.drained_at for row in rows if row.drained_at)
    return (
        f"All {len(done)} nodes serve {name_of(to)}; last switched {switched:%H:%M:%S}."
        f"{switched.microsecond // 1000:03d}Z, {(switched - asked_at).total_seconds():.2f} s after the "
        f"request, last answer of what was left at +{(drained - asked_at).total_seconds():.2f} s"
    )


async def receipt(unit: Unit, rollback_id: str, *, already: bool = False) -> Receipt:
    """As it stands now. Raises NotFound."""
    row = await repository.rollback(unit.session, rollback_id)
    return await represent(unit, row, already=already)


async def represent(unit: Unit, row: RollbackRow, *, already: bool = False) -> Receipt:
    deployment = await deployments.row_by_id(unit.session, row.deployment_id)
    rows = await repository.rollback_nodes(unit.session, row.id)
    live = {
        node.id: node
        for node in await pool(
            unit.session, deployment, unit.identity.timeline, unit.resources.settings.node_stale_s
        )
    }
    arms = await deployments.arms(unit.session, {*row.from_arms, row.to_arm})
    nodes = tuple(_node(each, row.asked_at, live.get(each.node_id)) for each in rows)
    to = arms[row.to_arm]
    return Receipt(
        id=row.id,
        deployment=deployment.ref,
        generation=row.generation,
        asked_at=row.asked_at,
        asked_by=row.asked_by,
        reason=row.reason,
        automatic=row.automatic,
        already=already,
        release=row.release,
        from_arms=tuple(arms[arm] for arm in row.from_arms),
        to_arm=to,
        nodes=nodes,
        all_switched=all(node.switched_ms is not None for node in nodes),
        all_drained=all(node.drained_ms is not None for node in nodes),
        final=closing(row.asked_at, nodes, rows, to),
        notes=tuple(row.notes),
    )
