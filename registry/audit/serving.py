"""What was served when: routes, what nodes had confirmed by then, and receipts, in one query."""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.audit import NodeThen, RolledBack, Serving
from registry.contract.routes import RouteArm
from registry.edge.principal import Principal

# Each lateral part is an index probe: of the routes per deployment, of what was applied per node.
SERVING = """
SELECT d.environment || '/' || d.name AS deployment, d.name, d.model,
    r.generation, r.created_at AS since, r.cause, r.actor, r.reason, r.release, r.body -> 'arms' AS arms,
    b.id AS rollback, b.asked_at, b.asked_by, b.reason AS rollback_reason, n.nodes
FROM deployments d
CROSS JOIN LATERAL (
    SELECT * FROM routes
    WHERE routes.deployment_id = d.id AND routes.created_at <= :at
    ORDER BY routes.created_at DESC, routes.generation DESC
    LIMIT 1
) r
LEFT JOIN rollbacks b ON b.deployment_id = d.id AND b.generation = r.generation
CROSS JOIN LATERAL (
    SELECT coalesce(
        jsonb_agg(
            jsonb_build_object('name', m.name, 'generation', a.generation, 'switched_at', a.switched_at)
            ORDER BY m.name
        ), '[]'
    ) AS nodes
    FROM nodes m
    CROSS JOIN LATERAL (
        SELECT applied.generation, applied.switched_at FROM applied
        WHERE applied.node_id = m.id AND applied.deployment_id = d.id
            AND (applied.timeline, applied.generation) <= (r.timeline, r.generation)
            AND applied.switched_at <= :at
        ORDER BY applied.timeline DESC, applied.generation DESC
        LIMIT 1
    ) a
    WHERE m.environment = d.environment
) n
WHERE d.environment = :environment AND d.name > :after
    AND (:models = '{}'::text[] OR d.model = ANY (:models))
ORDER BY d.name
LIMIT :limit
"""


async def serving(
    session: AsyncSession, environment: str, at: datetime, after: str | None, limit: int, caller: Principal
) -> list[Serving]:
    """By name, from the one behind `after`, one more than `limit`. One that had no route yet is left out."""
    values = {
        "environment": environment,
        "at": at,
        "after": after or "",
        "models": sorted(caller.models),
        "limit": limit + 1,
    }
    return [_then(row, at) for row in await session.execute(text(SERVING), values)]


def _then(row: Row[Any], at: datetime) -> Serving:
    rollback = None
    if row.rollback is not None:
        rollback = RolledBack(
            id=row.rollback, asked_at=row.asked_at, asked_by=row.asked_by, reason=row.rollback_reason
        )
    return Serving(
        deployment=row.deployment,
        model=row.model,
        at=at,
        generation=row.generation,
        since=row.since,
        cause=row.cause,
        actor=row.actor,
        reason=row.reason,
        release=row.release,
        rollback=rollback,
        arms=tuple(RouteArm.model_validate(arm) for arm in row.arms),
        nodes=tuple(NodeThen.model_validate(node) for node in row.nodes),
    )
