"""Queries on windows, and on what their counts are compared with."""

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.counters import CounterEdges, field_sizes
from registry.contract.engines import EngineReport, ScoreReference
from registry.contract.identity import ArmId
from registry.contract.routes import Route
from registry.drift.cells import Fields, add, dense
from registry.tables.builds import EngineRow
from registry.tables.deployments import ArmRow, RouteRow
from registry.tables.nodes import CounterWindowRow


async def span(session: AsyncSession, since_s: float) -> tuple[datetime, datetime]:
    """Begin and end, by the database's clock."""
    end: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return end - timedelta(seconds=since_s), end


async def routes(session: AsyncSession, deployment_id: str, generations: Collection[int]) -> dict[int, Route]:
    """By generation."""
    found = await session.execute(
        select(RouteRow.generation, RouteRow.body).where(
            RouteRow.deployment_id == deployment_id, RouteRow.generation.in_(generations)
        )
    )
    return {generation: Route.model_validate(body) for generation, body in found}


async def generations(session: AsyncSession, deployment: str, start: datetime, end: datetime) -> list[int]:
    """Those in which something was counted in the windows that begin in [start, end)."""
    found = await session.execute(
        select(CounterWindowRow.generation)
        .where(
            CounterWindowRow.deployment == deployment,
            CounterWindowRow.start >= start,
            CounterWindowRow.start < end,
        )
        .distinct()
    )
    return sorted(found.scalars())


async def totals(
    session: AsyncSession,
    deployment: str,
    start: datetime,
    end: datetime,
    generations: Collection[int],
    arms: Collection[ArmId],
    edges: CounterEdges,
) -> dict[ArmId, Fields]:
    """Sums by arm of the windows that begin in [start, end); all the generations count on `edges`."""
    found = await session.execute(
        select(CounterWindowRow.arm, CounterWindowRow.fields).where(
            CounterWindowRow.deployment == deployment,
            CounterWindowRow.start >= start,
            CounterWindowRow.start < end,
            CounterWindowRow.generation.in_(generations),
            CounterWindowRow.arm.in_(arms),
        )
    )
    sizes = field_sizes(edges)
    sums: dict[ArmId, Fields] = {arm: {} for arm in arms}
    for arm, fields in found:
        add(sums[arm], dense(fields, sizes))
    return sums


async def windows(
    session: AsyncSession,
    deployment: str,
    start: datetime,
    end: datetime,
    generations: Collection[int],
    arm: ArmId,
    edges: CounterEdges,
) -> list[Fields]:
    """Of one arm, in order of time; a window in which the generation changed is one."""
    found = await session.execute(
        select(CounterWindowRow.start, CounterWindowRow.fields)
        .where(
            CounterWindowRow.deployment == deployment,
            CounterWindowRow.start >= start,
            CounterWindowRow.start < end,
            CounterWindowRow.generation.in_(generations),
            CounterWindowRow.arm == arm,
        )
        .order_by(CounterWindowRow.start)
    )
    sizes = field_sizes(edges)
    sums: dict[datetime, Fields] = {}
    for begin, fields in found:
        add(sums.setdefault(begin, {}), dense(fields, sizes))
    return list(sums.values())


async def references(
    session: AsyncSession, arms: Collection[ArmId]
) -> dict[ArmId, tuple[ScoreReference, ...]]:
    """Validation's distributions, from the newest report of an engine of each arm that has any."""
    found = await session.execute(
        select(ArmRow.id, ArmRow.engines, EngineRow.digest, EngineRow.report)
        .join(
            EngineRow,
            (EngineRow.version_id == ArmRow.version_id) & (EngineRow.precision == ArmRow.precision),
        )
        .where(ArmRow.id.in_(arms))
        .order_by(EngineRow.created_at)
    )
    newest: dict[ArmId, tuple[ScoreReference, ...]] = {}
    for arm, engines, digest, report in found:
        if digest in engines.values():
            references = EngineReport.model_validate(report).references
            if references:
                newest[arm] = references
    return newest
