"""Queries on blobs and uploads."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.uploads import UploadPhase
from registry.tables.retention import COLLECTOR_LOCK, CollectedRow
from registry.tables.uploads import BlobRow, UploadRow

PROMISE_STEP = timedelta(minutes=1)


async def blobs(session: AsyncSession, digests: Iterable[str]) -> dict[str, BlobRow]:
    """Those that exist, by digest."""
    rows = await session.execute(select(BlobRow).where(BlobRow.digest.in_(set(digests))))
    return {row.digest: row for row in rows.scalars()}


async def held_blobs(session: AsyncSession, digests: Iterable[str]) -> dict[str, BlobRow]:
    """Those that exist, by digest. None of them can be collected before this transaction ends."""
    rows = await session.execute(
        select(BlobRow)
        .where(BlobRow.digest.in_(set(digests)))
        .order_by(BlobRow.digest)
        .with_for_update(read=True, key_share=True)
        .execution_options(populate_existing=True)
    )
    return {row.digest: row for row in rows.scalars()}


async def promise(session: AsyncSession, digest: str) -> BlobRow | None:
    """The blob, with its promise renewed; None: it does not exist.

    Written once a minute at most: the collector takes nothing that was promised within the hour.
    """
    await session.execute(
        update(BlobRow)
        .where(
            BlobRow.digest == digest,
            or_(
                BlobRow.promised_at.is_(None),
                BlobRow.promised_at < func.clock_timestamp() - PROMISE_STEP,
            ),
        )
        .values(promised_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    query = select(BlobRow).where(BlobRow.digest == digest).execution_options(populate_existing=True)
    return (await session.execute(query)).scalar_one_or_none()


async def await_collector(session: AsyncSession) -> None:
    """Until the end of this transaction the collector gives up no object that the registry does not know."""
    await session.execute(select(func.pg_advisory_xact_lock_shared(COLLECTOR_LOCK)))


async def keys_given_up(session: AsyncSession, digest: str) -> int:
    """How many keys held these bytes once and are never written again."""
    query = select(func.count()).where(CollectedRow.digest == digest)
    return (await session.execute(query)).scalar_one()


async def add_blob(session: AsyncSession, digest: str, size: int, key: str) -> None:
    """One that is there already stays as it is."""
    await session.execute(
        insert(BlobRow)
        .values(digest=digest, size=size, key=None if key == digest else key)
        .on_conflict_do_nothing()
    )


async def upload(session: AsyncSession, upload_id: str, *, lock: bool = False) -> UploadRow | None:
    query = select(UploadRow).where(UploadRow.id == upload_id).execution_options(populate_existing=True)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def unfinished(session: AsyncSession, digest: str, created_by: str) -> UploadRow | None:
    """The newest upload of this digest by the same person that is open or being verified; locked."""
    return (
        await session.execute(
            select(UploadRow)
            .where(
                UploadRow.digest == digest,
                UploadRow.created_by == created_by,
                UploadRow.phase.in_((UploadPhase.OPEN, UploadPhase.VERIFYING)),
            )
            .order_by(UploadRow.created_at.desc())
            .limit(1)
            .with_for_update()
        )
    ).scalar_one_or_none()


async def being_verified(session: AsyncSession, digests: Iterable[str], *, hold: bool) -> set[str]:
    """Digests whose bytes are being verified now. With `hold` their uploads are locked against settling
    until the end of the transaction, so that whoever settles one sees who came to wait for it."""
    query = (
        select(UploadRow.digest)
        .where(UploadRow.digest.in_(set(digests)), UploadRow.phase == UploadPhase.VERIFYING)
        .order_by(UploadRow.id)
    )
    rows = await session.execute(query.with_for_update(read=True) if hold else query)
    return set(rows.scalars())


async def newest(session: AsyncSession, digests: Iterable[str]) -> Sequence[UploadRow]:
    """The newest upload of each digest that has one."""
    return (
        (
            await session.execute(
                select(UploadRow)
                .where(UploadRow.digest.in_(set(digests)))
                .ext(distinct_on(UploadRow.digest))
                .order_by(UploadRow.digest, UploadRow.created_at.desc())
            )
        )
        .scalars()
        .all()
    )


async def expired(session: AsyncSession) -> UploadRow | None:
    """One open upload whose time is over; locked, those that someone else has locked left out."""
    return (
        await session.execute(
            select(UploadRow)
            .where(UploadRow.phase == UploadPhase.OPEN, UploadRow.expires_at < func.clock_timestamp())
            .limit(1)
            .with_for_update(skip_locked=True)
        )
    ).scalar_one_or_none()
