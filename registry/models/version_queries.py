"""Queries on versions and their metrics."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.versions import DatasetRef, VersionStage
from registry.lifecycle.releases import ACTIVE_PHASES
from registry.tables.deployments import ArmRow, DeploymentRow
from registry.tables.models import MetricRow, VersionRow
from registry.tables.releases import ReleaseRow

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


async def serving(session: AsyncSession, version_id: str) -> Sequence[str]:
    """Sentences that name each deployment and release that an arm of this version is part of."""
    return (await uses(session, [version_id])).get(version_id, [])


async def uses(session: AsyncSession, version_ids: Collection[str]) -> dict[str, list[str]]:
    """By version: sentences that name each deployment and release that an arm of it is part of."""
    rows = await session.execute(
        select(ArmRow.id, ArmRow.version_id).where(ArmRow.version_id.in_(version_ids))
    )
    arms = {row.id: row.version_id for row in rows}
    found: dict[str, list[str]] = defaultdict(list)
    if not arms:
        return found
    deployments = await session.execute(
        select(DeploymentRow)
        .where(DeploymentRow.stable_arm.in_(arms) | DeploymentRow.last_good_arm.in_(arms))
        .order_by(DeploymentRow.environment, DeploymentRow.name)
    )
    for row in deployments.scalars():
        stable, last_good = arms.get(row.stable_arm or ""), arms.get(row.last_good_arm or "")
        if stable is not None:
            found[stable].append(f"deployment {row.ref} has it as its stable arm")
        if last_good is not None and last_good != stable:
            found[last_good].append(f"deployment {row.ref} has it as its last good arm")
    releases = await session.execute(
        select(ReleaseRow)
        .where(ReleaseRow.arm_id.in_(arms), ReleaseRow.phase.in_(ACTIVE_PHASES))
        .order_by(ReleaseRow.deployment, ReleaseRow.number)
    )
    for release in releases.scalars():
        found[arms[release.arm_id]].append(
            f"release {release.number} of {release.deployment} is {release.phase}"
        )
    return found


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
