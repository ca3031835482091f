"""Queries of deletions: who refers to a version, a model, a data set; and what goes with it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import TextClause, delete, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from registry.edge.scopes import Referrer
from registry.errors import Referenced
from registry.tables.datasets import DatasetRow
from registry.tables.models import ModelRow, VersionRow
from registry.tables.retention import RetiredModelRow

FOREIGN_KEY_VIOLATION = "23503"

_OF_VERSION = text("""
SELECT referrer, NULL, environment FROM (
    SELECT 1 AS rank, 'alias ' || name || ' of ' || model AS referrer, NULL AS environment FROM aliases
    WHERE model = :model AND version = :number
    UNION
    SELECT 2, 'version ' || model || '@' || number || ' has it as its parent', NULL FROM versions
    WHERE model = :model AND lineage ->> 'parent_version' = CAST(:number AS text)
    UNION
    SELECT 3, 'build ' || id || ' is ' || phase, NULL FROM builds
    WHERE version_id = :id AND phase IN ('queued', 'running')
    UNION
    SELECT 4, 'release ' || releases.number || ' of ' || releases.deployment || ' is ' || releases.phase,
        split_part(releases.deployment, '/', 1)
    FROM releases JOIN arms ON arms.id IN (releases.arm_id, releases.from_arm_id)
    WHERE arms.version_id = :id
    UNION
    SELECT 5, 'deployment ' || deployments.environment || '/' || deployments.name, deployments.environment
    FROM deployments JOIN arms ON arms.id IN (deployments.stable_arm, deployments.last_good_arm)
    WHERE arms.version_id = :id
) AS found ORDER BY rank, referrer LIMIT :limit
""")

_OF_MODEL = text("""
SELECT referrer, NULL, environment FROM (
    SELECT 1 AS rank, number, 'version ' || model || '@' || number || ' is ' || phase AS referrer,
        NULL AS environment
    FROM versions WHERE model = :model
    UNION ALL
    SELECT 2, 0, 'deployment ' || environment || '/' || name, environment FROM deployments
    WHERE model = :model
) AS found ORDER BY rank, number LIMIT :limit
""")

_OF_DATASET = text("""
SELECT referrer, model, environment FROM (
    SELECT 'version ' || model || '@' || number || ' was trained on it' AS referrer, model,
        NULL AS environment
    FROM versions
    WHERE lineage #>> '{training_data,name}' = :name
        AND lineage #>> '{training_data,version}' = CAST(:version AS text)
    UNION
    SELECT 'build ' || builds.id || ' was calibrated with it', versions.model, NULL
    FROM builds JOIN versions ON versions.id = builds.version_id
    WHERE recipe #>> '{calibration,name}' = :name
        AND recipe #>> '{calibration,version}' = CAST(:version AS text)
    UNION
    SELECT 'build ' || builds.id || ' was validated with it', versions.model, NULL
    FROM builds JOIN versions ON versions.id = builds.version_id
    WHERE recipe #>> '{validation,name}' = :name
        AND recipe #>> '{validation,version}' = CAST(:version AS text)
    UNION
    SELECT 'metrics of version ' || versions.model || '@' || versions.number, versions.model, NULL
    FROM metrics JOIN versions ON versions.id = metrics.version_id
    WHERE metrics.dataset = :name AND metrics.dataset_version = CAST(:version AS integer)
    UNION
    SELECT 'the policy of deployment ' || environment || '/' || name, model, environment FROM deployments
    WHERE policy #>> '{metrics_gate,dataset,name}' = :name
        AND policy #>> '{metrics_gate,dataset,version}' = CAST(:version AS text)
) AS found ORDER BY referrer LIMIT :limit
""")

_BUILDS_OF_VERSION = text("SELECT id FROM builds WHERE version_id = :id")
# What is a version's own, in an order in which nothing refers to what is gone.
_DELETE_VERSION = tuple(
    text(statement)
    for statement in (
        "DELETE FROM metrics WHERE version_id = :id",
        "DELETE FROM arms WHERE version_id = :id",
        "DELETE FROM engines WHERE version_id = :id",
        "DELETE FROM steps WHERE build_id = ANY(:builds)",
        "DELETE FROM builds WHERE id = ANY(:builds)",
        "DELETE FROM task_logs WHERE task_id IN (SELECT id FROM tasks WHERE subject_id = ANY(:builds))",
        "DELETE FROM tasks WHERE subject_id = ANY(:builds)",
        "DELETE FROM versions WHERE id = :id",
    )
)


async def of_version(
    session: AsyncSession, version_id: str, model: str, number: int, limit: int
) -> Sequence[Referrer]:
    values = {"id": version_id, "model": model, "number": number, "limit": limit}
    return await _found(session, _OF_VERSION, values)


async def of_model(session: AsyncSession, model: str, limit: int) -> Sequence[Referrer]:
    return await _found(session, _OF_MODEL, {"model": model, "limit": limit})


async def of_dataset(session: AsyncSession, name: str, version: int, limit: int) -> Sequence[Referrer]:
    return await _found(session, _OF_DATASET, {"name": name, "version": version, "limit": limit})


async def _found(
    session: AsyncSession, statement: TextClause, values: Mapping[str, object]
) -> Sequence[Referrer]:
    return [Referrer(*row) for row in await session.execute(statement, values)]


async def delete_version(session: AsyncSession, row: VersionRow) -> None:
    """With its metrics, builds, engines and logs. The row is locked. Raises Referenced."""
    builds = (await session.execute(_BUILDS_OF_VERSION, {"id": row.id})).scalars().all()
    async with _referenced_otherwise(session, row.ref):
        for statement in _DELETE_VERSION:
            await session.execute(statement, {"id": row.id, "builds": list(builds)})
    session.expunge(row)


async def delete_model(session: AsyncSession, row: ModelRow) -> None:
    """The name's counter is kept, for a model that takes the name again. Raises Referenced."""
    kept = insert(RetiredModelRow).values(name=row.name, last_number=row.last_number)
    await session.execute(
        kept.on_conflict_do_update(index_elements=["name"], set_={"last_number": row.last_number})
    )
    async with _referenced_otherwise(session, f"the model {row.name}"):
        await session.execute(delete(ModelRow).where(ModelRow.name == row.name))
    session.expunge(row)


async def delete_dataset(session: AsyncSession, row: DatasetRow) -> None:
    """The name's counter stays. Raises Referenced."""
    async with _referenced_otherwise(session, f"the data set {row.name}@{row.version}"):
        await session.execute(
            delete(DatasetRow).where(DatasetRow.name == row.name, DatasetRow.version == row.version)
        )
    session.expunge(row)


@asynccontextmanager
async def _referenced_otherwise(session: AsyncSession, what: str) -> AsyncIterator[None]:
    """The database knows every referrer; one that no query here names is still no server error."""
    try:
        async with session.begin_nested():
            yield
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", None) != FOREIGN_KEY_VIOLATION:
            raise
        table = getattr(getattr(error.orig, "diag", None), "table_name", None)
        raise Referenced(
            f"{what} is still referred to by a row of {table}", "remove that first, then ask again"
        ) from error
