"""Use cases of uploads and blobs."""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.tasks import VerifyOrder
from registry.contract.tokens import Role
from registry.contract.uploads import Blob, Upload, UploadCreate, UploadPhase
from registry.contract.versions import FileEntry
from registry.edge.unit import Unit
from registry.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge, Unavailable
from registry.lifecycle.parts import cuts, part_size
from registry.lifecycle.uploads import UploadEvent
from registry.tables.base import new_id
from registry.tables.journal import advance
from registry.tables.uploads import BlobRow, UploadRow
from registry.tasks import service as tasks
from registry.uploads import repository
from registry.uploads.parts import Arrival, arrival, listed

log = logging.getLogger(__name__)

LIFE = timedelta(days=7)
QUEUE = "verify"
NAMED = 20


async def create(unit: Unit, body: UploadCreate) -> Upload:
    """`exists` where the blob is there; an unfinished upload of the same person goes on; else a new one."""
    limit = unit.resources.settings.max_upload_bytes
    if body.size > limit:
        raise TooLarge(
            f"{body.size} bytes are declared; the limit of one file is {limit}",
            "split the file, or raise SLIPWAY_MAX_UPLOAD_BYTES of the registry",
        )
    blob = await repository.promise(unit.session, body.digest)
    if blob is not None:
        if blob.size != body.size:
            raise Invalid(
                f"{body.digest} has {blob.size} bytes, not {body.size} as declared",
                "digest and size must be taken of the same bytes",
            )
        return Upload(id=None, digest=blob.digest, size=blob.size, exists=True, phase=UploadPhase.VERIFIED)
    row = await repository.unfinished(unit.session, body.digest, unit.actor)
    if row is not None and row.size == body.size:
        return await _resume(unit, row)
    row = await _begin(unit, body)
    unit.audit("upload.create", row.subject, None, represent(row))
    return await _with_parts(unit, row, Arrival({}, {}))


async def exists(session: AsyncSession, digest: str) -> bool:
    """Whether these bytes are here and verified; who is told so may rely on it for an hour."""
    return await repository.promise(session, digest) is not None


def check_total(unit: Unit, files: Iterable[FileEntry]) -> None:
    """Of what one version or data set is made of. Raises TooLarge."""
    limit = unit.resources.settings.max_version_bytes
    total = sum(entry.size for entry in files)
    if total > limit:
        raise TooLarge(
            f"the files have {total} bytes together; the limit is {limit}",
            "register less at once, or raise SLIPWAY_MAX_VERSION_BYTES of the registry",
        )


async def _begin(unit: Unit, body: UploadCreate) -> UploadRow:
    row = UploadRow(
        id=new_id("upl"),
        digest=body.digest,
        size=body.size,
        part_size=part_size(body.size),
        staging_key="",
        store_id="",
        phase=UploadPhase.OPEN,
        expires_at=func.now() + LIFE,
        created_by=unit.actor,
    )
    row.staging_key = f"staging-{row.id}"
    if body.size > unit.resources.settings.verify_at_once_bytes:
        row.store_id = await unit.resources.blobs.begin(row.staging_key)
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    return row


async def _resume(unit: Unit, row: UploadRow) -> Upload:
    if row.phase != UploadPhase.OPEN:
        return represent(row)
    arrived = await arrival(unit.resources.blobs, row)
    if arrived.forgotten:
        row.store_id = await unit.resources.blobs.begin(row.staging_key)
        arrived = Arrival({}, {})
    return await _with_parts(unit, row, arrived)


async def _with_parts(unit: Unit, row: UploadRow, arrived: Arrival) -> Upload:
    """A presigned URL is a secret: it is told to the caller and kept nowhere."""
    parts = await listed(unit.resources.blobs, row, arrived)
    return represent(row).model_copy(update={"parts": parts})


def represent(row: UploadRow) -> Upload:
    """Without its parts."""
    return Upload(
        id=row.id,
        digest=row.digest,
        size=row.size,
        exists=row.phase == UploadPhase.VERIFIED,
        phase=UploadPhase(row.phase),
        reason=row.phase_reason,
        part_size=row.part_size,
        expires_at=row.expires_at,
    )


async def get(unit: Unit, upload_id: str) -> Upload:
    """What has arrived, and fresh URLs for the rest. Raises NotFound, Forbidden, Unavailable."""
    row = await own(unit, upload_id)
    if row.phase != UploadPhase.OPEN:
        return represent(row)
    arrived = await arrival(unit.resources.blobs, row)
    if arrived.forgotten:
        raise _forgotten(row)
    return await _with_parts(unit, row, arrived)


async def complete(unit: Unit, upload_id: str) -> Upload:
    """open → verifying, with the task that verifies it. Repeating it changes nothing.

    Raises Conflict naming parts that are missing, Invalid where sizes are wrong.
    """
    row = await own(unit, upload_id, lock=True)
    if row.phase in (UploadPhase.VERIFYING, UploadPhase.VERIFIED):
        return represent(row)
    before = represent(row)
    if row.phase == UploadPhase.OPEN:
        await _join(unit, row)
    await advance(unit.session, row, UploadEvent.COMPLETE, actor=unit.actor)
    row.task_id = (await tasks.enqueue(unit, "verify", QUEUE, row.id)).id
    await unit.session.flush()
    made = represent(row)
    unit.audit("upload.complete", row.subject, before, made)
    return made


async def arrive(unit: Unit, row: UploadRow) -> None:
    """open → verifying, of a small file that the caller goes on to verify at once. `row` is locked."""
    before = represent(row)
    await advance(unit.session, row, UploadEvent.COMPLETE, actor=unit.actor)
    unit.audit("upload.complete", row.subject, before, represent(row))


async def _join(unit: Unit, row: UploadRow) -> None:
    """Lets the store put the parts together. That it may have happened before (and the commit of it been
    lost) is no error."""
    arrived = await arrival(unit.resources.blobs, row)
    if arrived.forgotten:
        raise _forgotten(row)
    if arrived.whole is None:
        numbers = [number for number, _, _ in cuts(row.size, row.part_size)]
        _check_arrived(row, arrived, numbers)
        parts = [arrived.parts[number] for number in numbers]
        await unit.resources.blobs.complete(row.staging_key, row.store_id, parts)
    elif arrived.whole != row.size:
        raise _wrong_size(f"{arrived.whole} bytes arrived; {row.size} were declared")


def _check_arrived(row: UploadRow, arrived: Arrival, numbers: Sequence[int]) -> None:
    missing = [
        str(number) for number in numbers if number not in arrived.parts and number not in arrived.wrong
    ]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise Conflict(
            f"of {len(numbers)} parts of {row.digest} these have not arrived: "
            f"{', '.join(missing[:NAMED])}{more}",
            f"GET /v1/uploads/{row.id} has a fresh URL for each missing part; PUT them, then complete again",
        )
    if arrived.wrong:
        sizes = {number: size for number, _, size in cuts(row.size, row.part_size)}
        number, size = min(arrived.wrong.items())
        raise _wrong_size(f"part {number} has {size} bytes; {sizes[number]} were declared")


def _wrong_size(detail: str) -> Invalid:
    return Invalid(
        detail,
        "the file is truncated or changed since it was declared: send the part again, or abort this upload "
        "and declare the file anew",
    )


async def abort(unit: Unit, upload_id: str) -> Upload:
    """open → aborted; what has arrived is thrown away."""
    row = await own(unit, upload_id, lock=True)
    return await _abort(unit, row, "aborted by command")


async def _abort(unit: Unit, row: UploadRow, reason: str) -> Upload:
    before = represent(row)
    await advance(unit.session, row, UploadEvent.ABORT, actor=unit.actor, reason=reason)
    unit.after_commit.append(partial(_forget, unit, row))
    made = represent(row)
    unit.audit("upload.abort", row.subject, before, made, reason)
    return made


async def expire_one(unit: Unit) -> bool:
    """Aborts one upload whose time is over. False: there is none."""
    row = await repository.expired(unit.session)
    if row is None:
        return False
    await _abort(unit, row, f"not completed until {row.expires_at:%Y-%m-%dT%H:%M:%SZ}")
    return True


async def order(unit: Unit, upload_id: str) -> VerifyOrder:
    """What a worker must know to verify an upload."""
    row = await upload_row(unit.session, upload_id)
    return VerifyOrder(
        upload=row.id, digest=row.digest, size=row.size, url=unit.resources.blobs.url(row.staging_key)
    )


async def place_for(session: AsyncSession, digest: str) -> str | None:
    """The key to which verified bytes of this digest go; None: they are there, and stay.

    The digest itself, unless the collector gave that up once: then another key, for a key that was given up
    is never written again (its object's deletion may still be under way).
    """
    await repository.await_collector(session)
    if await repository.promise(session, digest) is not None:
        return None
    given_up = await repository.keys_given_up(session, digest)
    return f"{digest}.{given_up}" if given_up else digest


async def settle_verified(unit: Unit, upload_id: str, key: str | None) -> str:
    """verifying → verified, and the blob exists: its bytes are at `key` (None: it existed before).

    Gives the digest.
    """
    row = await upload_row(unit.session, upload_id, lock=True)
    before = represent(row)
    if key is not None:
        await repository.add_blob(unit.session, row.digest, row.size, key)
    await advance(unit.session, row, UploadEvent.VERIFIED, actor=unit.actor)
    unit.after_commit.append(partial(_forget, unit, row))
    unit.audit("upload.verified", row.subject, before, represent(row))
    return row.digest


async def settle_rejected(unit: Unit, upload_id: str, reason: str) -> str:
    """verifying → rejected. Gives the digest that was declared."""
    row = await upload_row(unit.session, upload_id, lock=True)
    before = represent(row)
    await advance(unit.session, row, UploadEvent.MISMATCHED, actor=unit.actor, reason=reason)
    unit.after_commit.append(partial(_forget, unit, row))
    unit.audit("upload.rejected", row.subject, before, represent(row), reason)
    return row.digest


async def blob(session: AsyncSession, digest: str) -> Blob:
    """Raises NotFound."""
    row = await _blob_row(session, digest)
    return Blob(digest=row.digest, size=row.size, verified_at=row.verified_at)


async def location(unit: Unit, digest: str) -> str:
    """A URL of the bytes at the store, valid for a while. Raises NotFound."""
    return unit.resources.blobs.url((await _blob_row(unit.session, digest)).object_key)


async def _blob_row(session: AsyncSession, digest: str) -> BlobRow:
    row = (await repository.blobs(session, [digest])).get(digest)
    if row is None:
        raise NotFound(
            f"there is no blob {digest}",
            "upload it first (slipway upload FILE), and wait until it is verified",
        )
    return row


async def blob_sizes(session: AsyncSession, digests: Iterable[str]) -> dict[str, int]:
    """Of the blobs that exist: digest → bytes. Who is about to refer to them may rely on it: none of them is
    collected before this transaction ends."""
    return {row.digest: row.size for row in (await repository.held_blobs(session, digests)).values()}


async def being_verified(session: AsyncSession, digests: Iterable[str], *, hold: bool = False) -> set[str]:
    """Digests whose bytes arrived and are being verified; with `hold` until this transaction ends."""
    return await repository.being_verified(session, digests, hold=hold)


async def why_missing(session: AsyncSession, digests: Iterable[str]) -> dict[str, str]:
    """For digests that are no blobs: what became of their newest upload."""
    known = {row.digest: row for row in await repository.newest(session, digests)}
    return {
        digest: f"its upload is {known[digest].phase}"
        + (f" ({known[digest].phase_reason})" if known[digest].phase_reason else "")
        if digest in known
        else "it was never uploaded"
        for digest in digests
    }


async def upload_row(session: AsyncSession, upload_id: str, *, lock: bool = False) -> UploadRow:
    """Raises NotFound."""
    row = await repository.upload(session, upload_id, lock=lock)
    if row is None:
        raise NotFound(f"there is no upload {upload_id}", "start one by POST /v1/uploads")
    return row


async def own(unit: Unit, upload_id: str, *, lock: bool = False) -> UploadRow:
    """Raises NotFound, Forbidden."""
    row = await upload_row(unit.session, upload_id, lock=lock)
    if row.created_by != unit.actor and not unit.principal.has(Role.ADMIN):
        raise Forbidden(
            f"upload {row.id} belongs to {row.created_by}",
            "start your own by POST /v1/uploads; bytes that are verified already are not sent twice",
        )
    return row


async def _forget(unit: Unit, row: UploadRow) -> None:
    """Best effort: what stays behind in the staging area is of no meaning to anyone."""
    store = unit.resources.blobs
    try:
        if row.phase == UploadPhase.ABORTED and not row.in_one_piece:
            await store.abort(row.staging_key, row.store_id)
        await store.delete(row.staging_key)
    except Unavailable as error:
        log.warning("%s is left in the staging area: %s", row.staging_key, error.detail)


def _forgotten(row: UploadRow) -> Conflict:
    return Conflict(
        f"the object store does not know upload {row.id} any more",
        "send POST /v1/uploads again with the same digest: it goes on under the same id, from the beginning",
    )
