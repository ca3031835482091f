"""The two confirmed moments of many nodes in one statement: switched, and drained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    Float,
    Integer,
    Table,
    Text,
    case,
    func,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.listen import Channel
from registry.tables import unnest
from registry.tables.deployments import DeploymentRow
from registry.tables.nodes import AppliedRow, NodeRow
from registry.tables.releases import RollbackNodeRow, RollbackRow

NODES = cast(Table, NodeRow.__table__)
APPLIED = cast(Table, AppliedRow.__table__)
DEPLOYMENTS = cast(Table, DeploymentRow.__table__)
ROLLBACKS = cast(Table, RollbackRow.__table__)
ROLLBACK_NODES = cast(Table, RollbackNodeRow.__table__)


@dataclass(frozen=True)
class AppliedValues:
    """One moment of one node: it switched to a generation, or what it left is drained."""

    node_id: str
    incarnation: str
    environment: str
    deployment: str
    timeline: int
    generation: int
    drained: bool
    local_ms: float


@dataclass(frozen=True)
class Confirmed:
    """`deployment_id` None: refused, because there is no such deployment or a later agent took over."""

    deployment_id: str | None


async def write_applied(connection: AsyncConnection, batch: Sequence[AppliedValues]) -> list[Confirmed]:
    """The first arrival of each moment, for the generation and for the rollbacks that wait for it.

    What is drained has switched. A later generation confirms an earlier rollback too: the node follows a
    newer decision of the registry. At most one item per node and deployment.
    """
    given = unnest.rows(
        "given",
        place=(Integer(), range(len(batch))),
        node_id=(Text(), (each.node_id for each in batch)),
        incarnation=(Text(), (each.incarnation for each in batch)),
        environment=(Text(), (each.environment for each in batch)),
        deployment=(Text(), (each.deployment for each in batch)),
        timeline=(Integer(), (each.timeline for each in batch)),
        generation=(BigInteger(), (each.generation for each in batch)),
        drained=(Boolean(), (each.drained for each in batch)),
        local_ms=(Float(), (each.local_ms for each in batch)),
    )
    names = ("place", "node_id", "timeline", "generation", "drained", "local_ms")
    known = (
        select(*(given.c[name] for name in names), DEPLOYMENTS.c.id.label("deployment_id"))
        .add_columns(func.clock_timestamp().label("now"))
        .join_from(
            given,
            DEPLOYMENTS,
            (DEPLOYMENTS.c.environment == given.c.environment) & (DEPLOYMENTS.c.name == given.c.deployment),
        )
        .join(NODES, NODES.c.id == given.c.node_id)
        .where(NODES.c.previous_incarnation.is_distinct_from(given.c.incarnation))
        .order_by(given.c.node_id, DEPLOYMENTS.c.id)
        .cte("known")
    )
    statement = (
        select(known.c.place, known.c.deployment_id).add_cte(_moments(known)).add_cte(_receipts(known))
    )
    found = {row.place: row.deployment_id for row in await connection.execute(statement)}
    return [Confirmed(found.get(place)) for place in range(len(batch))]


def _moments(known: CTE) -> CTE:
    names = ["node_id", "deployment_id", "timeline", "generation"]
    written = insert(APPLIED).from_select(
        [*names, "switched_at", "switched_local_ms", "drained_at", "drained_local_ms"],
        select(
            *(known.c[name] for name in names),
            known.c.now,
            case((known.c.drained, null()), else_=known.c.local_ms),
            case((known.c.drained, known.c.now)),
            case((known.c.drained, known.c.local_ms)),
        ),
    )
    first = ("switched_at", "switched_local_ms", "drained_at", "drained_local_ms")
    return (
        written.on_conflict_do_update(
            index_elements=names,
            set_={name: func.coalesce(APPLIED.c[name], written.excluded[name]) for name in first},
        )
        .returning(APPLIED.c.node_id)
        .cte("moments")
    )


def _receipts(known: CTE) -> CTE:
    return (
        update(ROLLBACK_NODES)
        .where(
            ROLLBACK_NODES.c.node_id == known.c.node_id,
            ROLLBACK_NODES.c.rollback_id == ROLLBACKS.c.id,
            ROLLBACKS.c.deployment_id == known.c.deployment_id,
            ROLLBACKS.c.generation <= known.c.generation,
            or_(ROLLBACK_NODES.c.switched_at.is_(None), ROLLBACK_NODES.c.drained_at.is_(None)),
        )
        .values(
            switched_at=func.coalesce(ROLLBACK_NODES.c.switched_at, known.c.now),
            drained_at=func.coalesce(ROLLBACK_NODES.c.drained_at, case((known.c.drained, known.c.now))),
        )
        .returning(ROLLBACK_NODES.c.node_id)
        .cte("receipts")
    )


async def notify_applied(connection: AsyncConnection, payloads: Iterable[str]) -> None:
    """Wakes who waits for a receipt, in other processes too. A statement of its own, after the commit."""
    given = unnest.rows("given", payload=(Text(), payloads))
    await connection.execute(select(func.pg_notify(Channel.APPLIED, given.c.payload)).select_from(given))
