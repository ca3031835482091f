"""Queries of the collector."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.uploads import UploadPhase
from registry.tables.datasets import DatasetRow
from registry.tables.retention import COLLECTOR_LOCK, ChoreRow, CollectedRow
from registry.tables.uploads import BlobRow, UploadRow

UNFINISHED = (UploadPhase.OPEN, UploadPhase.VERIFYING)
# When a blob was last of any interest: verified, or promised to someone who need not send it again.
_SINCE: ColumnElement[datetime] = func.greatest(BlobRow.verified_at, BlobRow.promised_at)


async def cutoff(session: AsyncSession, grace_s: int) -> datetime:
    """By the database's clock: what is younger stays."""
    moment: datetime = (
        await session.execute(select(func.clock_timestamp() - timedelta(seconds=grace_s)))
    ).scalar_one()
    return moment


async def claim_chore(session: AsyncSession, name: str, every_s: float) -> bool:
    """True for one of all processes, once in `every_s`. The first time is `every_s` from the first call."""
    await session.execute(insert(ChoreRow).values(name=name).on_conflict_do_nothing())
    claimed = await session.execute(
        update(ChoreRow)
        .where(
            ChoreRow.name == name,
            ChoreRow.begun_at < func.clock_timestamp() - timedelta(seconds=every_s),
        )
        .values(begun_at=func.clock_timestamp())
        .returning(ChoreRow.name)
    )
    return claimed.scalar_one_or_none() is not None


async def expired_datasets(session: AsyncSession, after: tuple[str, int], limit: int) -> Sequence[DatasetRow]:
    """Past their retention, by name and version."""
    query = (
        select(DatasetRow)
        .where(
            DatasetRow.retain_until < func.clock_timestamp(),
            tuple_(DatasetRow.name, DatasetRow.version) > after,
        )
        .order_by(DatasetRow.name, DatasetRow.version)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def old_blobs(session: AsyncSession, before: datetime, after: str, limit: int) -> Sequence[BlobRow]:
    """By digest: those that nobody was told of since `before`, referenced or not."""
    query = (
        select(BlobRow).where(before > _SINCE, BlobRow.digest > after).order_by(BlobRow.digest).limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def locked_blobs(
    session: AsyncSession, before: datetime, digests: Collection[str]
) -> Sequence[BlobRow]:
    """Those of `digests` that are still there and still old. Nobody can come to refer to them, or be told of
    them, before this transaction ends; who is about to has locked them, and they are left out."""
    query = (
        select(BlobRow)
        .where(BlobRow.digest.in_(digests), before > _SINCE)
        .order_by(BlobRow.digest)
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query)).scalars().all()


async def locked_blob(session: AsyncSession, digest: str) -> BlobRow | None:
    query = (
        select(BlobRow)
        .where(BlobRow.digest == digest)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def promised_lately(session: AsyncSession, row: BlobRow, within_s: int) -> bool:
    """Whether someone was told within the time that the blob is there."""
    if row.promised_at is None:
        return False
    return row.promised_at > await cutoff(session, within_s)


async def give_up(session: AsyncSession, rows: Collection[BlobRow]) -> None:
    """Deletes blobs, and remembers their keys for ever: their objects are to be deleted."""
    await remember(session, {row.object_key: row.digest for row in rows})
    await session.execute(
        delete(BlobRow)
        .where(BlobRow.digest.in_([row.digest for row in rows]))
        .execution_options(synchronize_session=False)
    )


async def remember(session: AsyncSession, keys: dict[str, str]) -> None:
    """Keys with their digests. One that was deleted before (and came back by a late copy) is due again."""
    if keys:
        await session.execute(
            insert(CollectedRow)
            .values([{"key": key, "digest": digest} for key, digest in keys.items()])
            .on_conflict_do_update(index_elements=["key"], set_={"deleted_at": None})
        )


async def due(session: AsyncSession, limit: int) -> Sequence[str]:
    """Keys whose objects are still to be deleted."""
    query = (
        select(CollectedRow.key)
        .where(CollectedRow.deleted_at.is_(None))
        .order_by(CollectedRow.key)
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def deleted(session: AsyncSession, keys: Collection[str]) -> None:
    await session.execute(
        update(CollectedRow)
        .where(CollectedRow.key.in_(keys))
        .values(deleted_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )


async def hold_off_promotions(session: AsyncSession) -> None:
    """Until the end of this transaction nobody chooses a key for verified bytes."""
    await session.execute(select(func.pg_advisory_xact_lock(COLLECTOR_LOCK)))


async def known_keys(session: AsyncSession, keys: dict[str, str]) -> set[str]:
    """Of keys with their digests: those that hold a blob, or may come to hold the bytes of an upload."""
    rows = await session.execute(
        select(BlobRow)
        .where(BlobRow.digest.in_(set(keys.values())))
        .execution_options(populate_existing=True)
    )
    held = {row.object_key for row in rows.scalars()}
    coming = set(
        (
            await session.execute(
                select(UploadRow.digest).where(
                    UploadRow.digest.in_(set(keys.values())), UploadRow.phase.in_(UNFINISHED)
                )
            )
        ).scalars()
    )
    return {key for key, digest in keys.items() if key in held or digest in coming}


async def uploads(session: AsyncSession, ids: Collection[str]) -> dict[str, UploadRow]:
    """Those that are known, by id."""
    rows = await session.execute(
        select(UploadRow).where(UploadRow.id.in_(ids)).execution_options(populate_existing=True)
    )
    return {row.id: row for row in rows.scalars()}
