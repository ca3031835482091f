"""Queries on data sets."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from sqlalchemy import select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.versions import DatasetRef
from registry.tables.datasets import DatasetRow

# One statement: a number is never taken without its data set.
_CREATE = text("""
WITH allotted AS (
    INSERT INTO dataset_names (name, last_version) VALUES (:name, 1)
    ON CONFLICT (name) DO UPDATE SET last_version = dataset_names.last_version + 1
    RETURNING last_version AS version
)
INSERT INTO datasets (
    name, version, kind, form, shards, index, rows, digest, digests, provenance, tags, retain_until,
    created_by
)
SELECT :name, version, :kind, :form, CAST(:shards AS jsonb), CAST(:index AS jsonb), :rows, :digest,
    CAST(:digests AS text[]), :provenance, CAST(:tags AS jsonb), CAST(:retain_until AS timestamptz), :by
FROM allotted
RETURNING version, created_at
""")


async def create(session: AsyncSession, row: DatasetRow) -> tuple[int, datetime]:
    """Inserts the data set under its name's next number; gives number and time."""
    made = (
        await session.execute(
            _CREATE,
            {
                "name": row.name,
                "kind": row.kind,
                "form": row.form,
                "shards": orjson.dumps(row.shards).decode(),
                "index": orjson.dumps(row.index).decode(),
                "rows": row.rows,
                "digest": row.digest,
                "digests": row.digests,
                "provenance": row.provenance,
                "tags": orjson.dumps(row.tags).decode(),
                "retain_until": row.retain_until,
                "by": row.created_by,
            },
        )
    ).one()
    return made.version, made.created_at


async def dataset(session: AsyncSession, name: str, version: int, *, lock: bool = False) -> DatasetRow | None:
    query = (
        select(DatasetRow)
        .where(DatasetRow.name == name, DatasetRow.version == version)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def newest(session: AsyncSession, name: str) -> int | None:
    query = select(DatasetRow.version).where(DatasetRow.name == name).order_by(DatasetRow.version.desc())
    return (await session.execute(query.limit(1))).scalar_one_or_none()


async def known(session: AsyncSession, refs: Iterable[DatasetRef]) -> dict[DatasetRef, DatasetRow]:
    """Those of `refs` that exist. None of them can be deleted before this transaction ends."""
    keys = [(ref.name, ref.version) for ref in refs]
    rows = await session.execute(
        select(DatasetRow)
        .where(tuple_(DatasetRow.name, DatasetRow.version).in_(keys))
        .order_by(DatasetRow.name, DatasetRow.version)
        .with_for_update(read=True, key_share=True)
    )
    return {DatasetRef(name=row.name, version=row.version): row for row in rows.scalars()}


async def datasets(session: AsyncSession, after: tuple[str, int] | None, limit: int) -> Sequence[DatasetRow]:
    """By name and version, one more than `limit`."""
    query = select(DatasetRow).order_by(DatasetRow.name, DatasetRow.version).limit(limit + 1)
    if after is not None:
        query = query.where(tuple_(DatasetRow.name, DatasetRow.version) > after)
    return (await session.execute(query)).scalars().all()
