"""Queries on versions and their metrics."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.versions import DatasetRef, VersionStage
from registry.edge.scopes import Referrer
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.tables.models import MetricRow, VersionRow

# One statement, the last one before the commit, so that creates of one model wait for one another as
# briefly as can be; and a number is never taken without its version and its audit entry.
_CREATE = text("""
WITH bumped AS (
    UPDATE models SET last_number = last_number + 1 WHERE name = :model RETURNING last_number AS number
), made AS (
    INSERT INTO versions (
        id, model, number, framework, files, digests, digest, contract, lineage, description, tags,
        phase, phase_reason, created_by
    )
    SELECT :id, :model, number, :framework, CAST(:files AS jsonb), CAST(:digests AS text[]), :digest,
        CAST(:contract AS jsonb), CAST(:lineage AS jsonb), :description, CAST(:tags AS jsonb), :stage, '', :by
    FROM bumped
    RETURNING number, created_at, phase_since
), noted AS (
    INSERT INTO audit (actor, action, subject, after, reason, via, request_id)
    SELECT :by, 'version.create', 'version:' || :model || '@' || number,
        CAST(:after AS jsonb) || jsonb_build_object(
            'number', number, 'created_at', created_at, 'stage_since', phase_since
        ),
        '', :via, :request_id
    FROM made
)
SELECT number, created_at, phase_since FROM made
""")


@dataclass(frozen=True)
class Allotted:
    """What the database decided about a new version."""

    number: int
    created_at: datetime
    since: datetime


async def create(
    session: AsyncSession, row: VersionRow, after: dict[str, Any], via: str, request_id: str | None
) -> Allotted | None:
    """Inserts the version under the model's next number, with its audit entry. None: no such model."""

    def as_json(value: object) -> str:
        return orjson.dumps(value).decode()

    made = (
        await session.execute(
            _CREATE,
            {
                "id": row.id,
                "model": row.model,
                "framework": row.framework,
                "files": as_json(row.files),
                "digests": row.digests,
                "digest": row.digest,
                "contract": as_json(row.contract),
                "lineage": as_json(row.lineage),
                "description": row.description,
                "tags": as_json(row.tags),
                "stage": row.phase,
                "by": row.created_by,
                "after": as_json(after),
                "via": via,
                "request_id": request_id,
            },
        )
    ).one_or_none()
    return None if made is None else Allotted(made.number, made.created_at, made.phase_since)


async def version(session: AsyncSession, model: str, number: int, *, lock: bool = False) -> VersionRow | None:
    query = (
        select(VersionRow)
        .where(VersionRow.model == model, VersionRow.number == number)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def by_id(session: AsyncSession, version_id: str) -> VersionRow:
    return (await session.execute(select(VersionRow).where(VersionRow.id == version_id))).scalar_one()


async def versions(session: AsyncSession, model: str, below: int | None, limit: int) -> Sequence[VersionRow]:
    """Newest first, one more than `limit`."""
    query = select(VersionRow).where(VersionRow.model == model)
    if below is not None:
        query = query.where(VersionRow.number < below)
    return (await session.execute(query.order_by(VersionRow.number.desc()).limit(limit + 1))).scalars().all()


async def verifying_with(session: AsyncSession, digest: str) -> Sequence[VersionRow]:
    """Versions that wait for a file of this digest; locked in one order, so that two files that settle at
    the same time see each other."""
    return (
        (
            await session.execute(
                select(VersionRow)
                .where(VersionRow.phase == VersionStage.VERIFYING, VersionRow.digests.contains([digest]))
                .order_by(VersionRow.id)
                .with_for_update()
                .execution_options(populate_existing=True)
            )
        )
        .scalars()
        .all()
    )


class Use(NamedTuple):
    """What has an arm of a version."""

    version_id: str
    referrer: Referrer

    @classmethod
    def of(cls, version_id: str, sentence: str, environment: str) -> "Use":
        """A row of `USES`. Versions and their deployments belong to one model."""
        return cls(version_id, Referrer(sentence, None, environment))


_ACTIVE = ", ".join(f"'{phase}'" for phase in sorted(ACTIVE_PHASES))
USES = f"""
SELECT version_id, sentence, environment FROM (
    SELECT a.version_id, 1 AS rank, d.environment, d.environment || '/' || d.name AS place, 0 AS number,
        'deployment ' || d.environment || '/' || d.name || ' has it as its stable arm' AS sentence
    FROM arms a JOIN deployments d ON d.stable_arm = a.id WHERE a.version_id = ANY(%(ids)s)
    UNION ALL
    SELECT a.version_id, 1, d.environment, d.environment || '/' || d.name, 0,
        'deployment ' || d.environment || '/' || d.name || ' has it as its last good arm'
    FROM arms a JOIN deployments d ON d.last_good_arm = a.id LEFT JOIN arms s ON s.id = d.stable_arm
    WHERE a.version_id = ANY(%(ids)s) AND s.version_id IS DISTINCT FROM a.version_id
    UNION ALL
    SELECT a.version_id, 2, split_part(r.deployment, '/', 1), r.deployment, r.number,
        'release ' || r.number || ' of ' || r.deployment || ' is ' || r.phase
    FROM arms a JOIN releases r ON r.arm_id = a.id
    WHERE a.version_id = ANY(%(ids)s) AND r.phase IN ({_ACTIVE})
) AS found ORDER BY rank, place, number"""  # noqa: S608  # the phases are ours


async def uses(session: AsyncSession, version_ids: Collection[str]) -> Sequence[Use]:
    """Deployments that have it as their stable or last good arm, then active releases."""
    connection = await session.connection()
    rows: Sequence[Any] = (await connection.exec_driver_sql(USES, {"ids": list(version_ids)})).all()
    return [Use.of(*row) for row in rows]


async def metrics(session: AsyncSession, version_id: str) -> Sequence[MetricRow]:
    """The newest of each (data set, split, name, who measured through what)."""
    key = (
        MetricRow.dataset,
        MetricRow.dataset_version,
        MetricRow.split,
        MetricRow.name,
        MetricRow.measured_by,
        MetricRow.engine,
    )
    query = (
        select(MetricRow)
        .where(MetricRow.version_id == version_id)
        .ext(distinct_on(*key))
        .order_by(*key, MetricRow.id.desc())
    )
    return (await session.execute(query)).scalars().all()


async def newest_metric(
    session: AsyncSession, version_id: str, dataset: DatasetRef, name: str
) -> MetricRow | None:
    """The training side's where it measured, else that of our own pipeline; of the whole data set where that
    was measured, else of any split."""
    query = (
        select(MetricRow)
        .where(
            MetricRow.version_id == version_id,
            MetricRow.dataset == dataset.name,
            MetricRow.dataset_version == dataset.version,
            MetricRow.name == name,
        )
        .order_by(
            (MetricRow.measured_by == "training").desc(),
            (MetricRow.split == "all").desc(),
            MetricRow.id.desc(),
        )
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()
