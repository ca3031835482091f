"""Every query on deployments, arms and routes."""

from datetime import datetime

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.deployments import Arm
from registry.contract.routes import Route, RouteCause
from registry.edge.principal import Principal
from registry.errors import NotFound
from registry.tables.deployments import ArmRow, DeploymentRow, RouteRow
from registry.tables.models import VersionRow


def _missing(environment: str, name: str) -> NotFound:
    return NotFound(
        f"there is no deployment {environment}/{name}",
        "list them: slipway deployment list; create it: slipway deployment create",
    )


async def get(session: AsyncSession, environment: str, name: str) -> DeploymentRow:
    """Raises NotFound."""
    row = (
        await session.execute(
            select(DeploymentRow).where(DeploymentRow.environment == environment, DeploymentRow.name == name)
        )
    ).scalar_one_or_none()
    if row is None:
        raise _missing(environment, name)
    return row


async def lock(session: AsyncSession, environment: str, name: str) -> DeploymentRow:
    """The row, locked and as it is now. Locks are taken in the order deployment → release → route."""
    row = (
        await session.execute(
            select(DeploymentRow)
            .where(DeploymentRow.environment == environment, DeploymentRow.name == name)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
    ).scalar_one_or_none()
    if row is None:
        raise _missing(environment, name)
    return row


async def lock_by_id(session: AsyncSession, deployment_id: str) -> DeploymentRow:
    return (
        await session.execute(
            select(DeploymentRow)
            .where(DeploymentRow.id == deployment_id)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
    ).scalar_one()


async def get_by_id(session: AsyncSession, deployment_id: str) -> DeploymentRow:
    return (
        await session.execute(
            select(DeploymentRow)
            .where(DeploymentRow.id == deployment_id)
            .execution_options(populate_existing=True)
        )
    ).scalar_one()


async def page(
    session: AsyncSession, environment: str | None, after: str | None, limit: int, caller: Principal
) -> list[DeploymentRow]:
    """By `env/name`, from the one behind `after`; those in the caller's scope."""
    key = DeploymentRow.environment + "/" + DeploymentRow.name
    wanted = select(DeploymentRow).order_by(key).limit(limit)
    if environment:
        wanted = wanted.where(DeploymentRow.environment == environment)
    if caller.environments:
        wanted = wanted.where(DeploymentRow.environment.in_(caller.environments))
    if caller.models:
        wanted = wanted.where(DeploymentRow.model.in_(caller.models))
    if after:
        wanted = wanted.where(key > after)
    return list((await session.execute(wanted)).scalars())


async def arms(session: AsyncSession, ids: set[str]) -> dict[str, Arm]:
    """Arms by id, with the version's name."""
    found = await session.execute(
        select(ArmRow, VersionRow.model, VersionRow.number)
        .join(VersionRow, VersionRow.id == ArmRow.version_id)
        .where(ArmRow.id.in_(ids))
    )
    return {
        row.id: Arm(
            id=row.id,
            version=f"{model}@{number}",
            precision=row.precision,
            engines=row.engines,
            pipeline=row.pipeline,
            proven=row.proven,
        )
        for row, model, number in found
    }


async def keep_arm(session: AsyncSession, row: ArmRow) -> None:
    """Arms are immutable and named by their digest: a second writer writes the same."""
    await session.execute(
        insert(ArmRow)
        .values(
            id=row.id,
            version_id=row.version_id,
            precision=row.precision,
            engines=row.engines,
            pipeline=row.pipeline,
            proven=row.proven,
        )
        .on_conflict_do_nothing()
    )


async def newest_route(session: AsyncSession, deployment: DeploymentRow) -> Route | None:
    row = await session.get(RouteRow, (deployment.id, deployment.generation))
    return Route.model_validate(row.body) if row else None


async def routes(session: AsyncSession, deployment_id: str, below: int | None, limit: int) -> list[Route]:
    """Newest first."""
    wanted = (
        select(RouteRow.body)
        .where(RouteRow.deployment_id == deployment_id)
        .order_by(RouteRow.generation.desc())
        .limit(limit)
    )
    if below is not None:
        wanted = wanted.where(RouteRow.generation < below)
    return [Route.model_validate(body) for body in (await session.execute(wanted)).scalars()]


async def route_at(session: AsyncSession, deployment_id: str, at: datetime) -> Route | None:
    """The route in force at a moment."""
    body = (
        await session.execute(
            select(RouteRow.body)
            .where(RouteRow.deployment_id == deployment_id, RouteRow.created_at <= at)
            .order_by(RouteRow.generation.desc())
            .limit(1)
        )
    ).scalar_one_or_none()
    return Route.model_validate(body) if body else None


async def arms_served(session: AsyncSession, deployment_id: str) -> list[str]:
    """Arms that had all of the traffic once, newest first: where a rollback may go."""
    found = await session.execute(
        text(
            """
            SELECT arm FROM (
                SELECT entry->>'arm' AS arm, max(r.generation) AS last
                FROM routes r, jsonb_array_elements(r.body->'arms') AS entry
                WHERE r.deployment_id = :id AND (entry->>'share')::int = 10000
                GROUP BY 1
            ) AS served ORDER BY last DESC LIMIT 20
            """
        ),
        {"id": deployment_id},
    )
    return list(found.scalars())


async def completed_arm(session: AsyncSession, deployment_id: str) -> str | None:
    """The arm that the newest completion made stable; None: no release has completed yet."""
    found = await session.execute(
        text(
            """
            SELECT entry->>'arm' FROM routes r, jsonb_array_elements(r.body->'arms') AS entry
            WHERE r.deployment_id = :id AND r.cause = :cause AND (entry->>'share')::int = 10000
            ORDER BY r.generation DESC LIMIT 1
            """
        ),
        {"id": deployment_id, "cause": RouteCause.COMPLETE.value},
    )
    return found.scalar_one_or_none()


async def notify(session: AsyncSession, deployment_id: str, generation: int) -> None:
    """Wakes every process that holds waiting nodes; delivered by PostgreSQL at the commit."""
    await session.execute(select(func.pg_notify("slipway_routes", f"{deployment_id}:{generation}")))


async def now(session: AsyncSession) -> datetime:
    """The database's clock."""
    moment: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return moment
