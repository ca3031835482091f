"""Builds and engines as people see them."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from registry.builds import repository
from registry.contract.builds import Build
from registry.contract.deployments import Arm
from registry.contract.engines import Engine
from registry.tables.builds import BuildRow, EngineRow
from registry.tables.deployments import ArmRow
from registry.tasks import service as tasks


async def represent_builds(session: AsyncSession, rows: Sequence[BuildRow]) -> list[Build]:
    """In the given order; a fixed number of queries, however many there are."""
    ids = [row.id for row in rows]
    steps = await repository.steps_of(session, ids)
    engines = await represent_engines(session, await repository.engines_of(session, ids))
    versions = await repository.versions(session, [row.version_id for row in rows])
    leases = await tasks.by_id(session, [row.task_id for row in rows])
    return [
        Build.model_validate(
            {
                "id": row.id,
                "version": versions[row.version_id],
                "recipe": row.recipe,
                "phase": row.phase,
                "reason": row.phase_reason,
                "since": row.phase_since,
                "attempt": leases[row.task_id].attempt,
                "worker": leases[row.task_id].worker,
                "no_cache": row.no_cache,
                "steps": [step.report for step in steps if step.build_id == row.id],
                "engines": [engine for engine in engines if engine.build == row.id],
                "revision": row.revision,
                "created_at": row.created_at,
                "created_by": row.created_by,
            }
        )
        for row in rows
    ]


async def represent_build(session: AsyncSession, row: BuildRow) -> Build:
    (made,) = await represent_builds(session, [row])
    return made


async def represent_engines(session: AsyncSession, rows: Sequence[EngineRow]) -> list[Engine]:
    ids = [row.version_id for row in rows]
    versions = await repository.versions(session, ids)
    arms = await repository.arms_of(session, ids)
    return [
        Engine.model_validate(
            {
                **row.report,
                "id": row.id,
                "version": versions[row.version_id],
                "build": row.build_id,
                "arm": _arm_of(row, arms),
                "releasable": row.releasable,
                "unproven": row.unproven,
                "created_at": row.created_at,
            }
        )
        for row in rows
    ]


def _arm_of(row: EngineRow, arms: Sequence[ArmRow]) -> str | None:
    """The newest arm that the engine is part of."""
    for arm in arms:
        if (
            arm.version_id == row.version_id
            and arm.precision == row.precision
            and arm.engines.get(row.target) == row.digest
        ):
            return arm.id
    return None


def represent_arm(row: ArmRow, version: str) -> Arm:
    return Arm(
        id=row.id,
        version=version,
        precision=row.precision,
        engines=row.engines,
        pipeline=row.pipeline,
        proven=row.proven,
    )
