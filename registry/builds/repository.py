"""Queries on builds, steps, engines, cached steps, and on arms by their id."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.tables.builds import BuildRow, CachedStepRow, EngineRow, StepRow
from registry.tables.deployments import ArmRow
from registry.tables.models import VersionRow


async def build(session: AsyncSession, build_id: str, *, lock: bool = False) -> BuildRow | None:
    query = select(BuildRow).where(BuildRow.id == build_id).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def builds(
    session: AsyncSession,
    below: str | None,
    limit: int,
    version_id: str | None,
    models: Collection[str],
) -> Sequence[BuildRow]:
    """Newest first, one more than `limit`."""
    query = select(BuildRow).order_by(BuildRow.id.desc()).limit(limit + 1)
    if below is not None:
        query = query.where(BuildRow.id < below)
    if version_id is not None:
        query = query.where(BuildRow.version_id == version_id)
    if models:
        query = query.join(VersionRow, VersionRow.id == BuildRow.version_id).where(
            VersionRow.model.in_(models)
        )
    return (await session.execute(query)).scalars().all()


async def put_step(session: AsyncSession, build_id: str, name: str, engine: str, report: Any) -> None:
    """Replaces the earlier report of the step, which keeps its place in the order."""
    place = (
        select(func.coalesce(func.max(StepRow.position) + 1, 0))
        .where(StepRow.build_id == build_id)
        .scalar_subquery()
    )
    await session.execute(
        insert(StepRow)
        .values(build_id=build_id, name=name, engine=engine, position=place, report=report)
        .on_conflict_do_update(index_elements=["build_id", "name", "engine"], set_={"report": report})
    )


async def steps_of(session: AsyncSession, build_ids: Collection[str]) -> Sequence[StepRow]:
    """In the order in which they were first reported."""
    query = select(StepRow).where(StepRow.build_id.in_(build_ids)).order_by(StepRow.position)
    return (await session.execute(query)).scalars().all()


async def clear_steps(session: AsyncSession, build_id: str) -> None:
    await session.execute(delete(StepRow).where(StepRow.build_id == build_id))


async def put_engine(session: AsyncSession, row: EngineRow) -> EngineRow:
    """Replaces the engine of the same precision and target in this build, which keeps its id."""
    values = {
        "version_id": row.version_id,
        "digest": row.digest,
        "releasable": row.releasable,
        "unproven": row.unproven,
        "report": row.report,
    }
    made = await session.execute(
        insert(EngineRow)
        .values(id=row.id, build_id=row.build_id, precision=row.precision, target=row.target, **values)
        .on_conflict_do_update(index_elements=["build_id", "precision", "target"], set_=values)
        .returning(EngineRow)
        .execution_options(populate_existing=True)
    )
    return made.scalar_one()


async def engine(session: AsyncSession, engine_id: str) -> EngineRow | None:
    return (await session.execute(select(EngineRow).where(EngineRow.id == engine_id))).scalar_one_or_none()


async def engines_of(session: AsyncSession, build_ids: Collection[str]) -> Sequence[EngineRow]:
    query = (
        select(EngineRow)
        .where(EngineRow.build_id.in_(build_ids))
        .order_by(EngineRow.created_at, EngineRow.id)
    )
    return (await session.execute(query)).scalars().all()


async def engines(
    session: AsyncSession,
    below: str | None,
    limit: int,
    version_id: str | None,
    models: Collection[str],
) -> Sequence[EngineRow]:
    """Newest first, one more than `limit`."""
    query = select(EngineRow).order_by(EngineRow.id.desc()).limit(limit + 1)
    if below is not None:
        query = query.where(EngineRow.id < below)
    if version_id is not None:
        query = query.where(EngineRow.version_id == version_id)
    if models:
        query = query.join(VersionRow, VersionRow.id == EngineRow.version_id).where(
            VersionRow.model.in_(models)
        )
    return (await session.execute(query)).scalars().all()


async def newest_engines(session: AsyncSession, version_id: str, precision: str) -> Sequence[EngineRow]:
    """One of each target: the newest that passed its gates, else the newest."""
    query = (
        select(EngineRow)
        .where(EngineRow.version_id == version_id, EngineRow.precision == precision)
        .ext(distinct_on(EngineRow.target))
        .order_by(
            EngineRow.target,
            EngineRow.releasable.desc(),
            EngineRow.created_at.desc(),
            EngineRow.id.desc(),
        )
    )
    return (await session.execute(query)).scalars().all()


async def engines_of_arm(
    session: AsyncSession, version_id: str, precision: str, engines: Mapping[str, str]
) -> Sequence[EngineRow]:
    """The newest row of each (target, digest) of an arm."""
    query = (
        select(EngineRow)
        .where(
            EngineRow.version_id == version_id,
            EngineRow.precision == precision,
            tuple_(EngineRow.target, EngineRow.digest).in_(list(engines.items())),
        )
        .ext(distinct_on(EngineRow.target))
        .order_by(EngineRow.target, EngineRow.created_at.desc(), EngineRow.id.desc())
    )
    return (await session.execute(query)).scalars().all()


async def versions(session: AsyncSession, version_ids: Collection[str]) -> dict[str, str]:
    """Version id → MODEL@NUMBER."""
    rows = await session.execute(select(VersionRow).where(VersionRow.id.in_(set(version_ids))))
    return {row.id: row.ref for row in rows.scalars()}


async def arms_of(session: AsyncSession, version_ids: Collection[str]) -> Sequence[ArmRow]:
    """Newest first."""
    query = (
        select(ArmRow)
        .where(ArmRow.version_id.in_(set(version_ids)))
        .order_by(ArmRow.created_at.desc(), ArmRow.id)
    )
    return (await session.execute(query)).scalars().all()


async def cached_step(session: AsyncSession, key: str) -> CachedStepRow | None:
    return (await session.execute(select(CachedStepRow).where(CachedStepRow.key == key))).scalar_one_or_none()


async def add_cached_step(
    session: AsyncSession, key: str, outputs: dict[str, Any], report: dict[str, Any]
) -> None:
    """The first writer's result stays."""
    await session.execute(
        insert(CachedStepRow).values(key=key, outputs=outputs, report=report).on_conflict_do_nothing()
    )


async def arm(session: AsyncSession, arm_id: str) -> ArmRow | None:
    return (await session.execute(select(ArmRow).where(ArmRow.id == arm_id))).scalar_one_or_none()
