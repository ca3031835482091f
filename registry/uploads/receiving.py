"""Bytes whose sender knows neither their digest nor presigned URLs: they pass through this process."""

import hashlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sqlalchemy import func

from registry.blobs.store import BlobStore
from registry.contract.uploads import UploadPhase
from registry.edge.resources import Resources
from registry.edge.unit import Unit
from registry.errors import TooLarge, Unavailable
from registry.lifecycle.parts import PART_SIZE
from registry.tables.base import new_id
from registry.tables.uploads import UploadRow
from registry.uploads import service

log = logging.getLogger(__name__)

MOST_PARTS = 10_000


@dataclass(frozen=True)
class Received:
    """What arrived in the staging area, not yet known to the database. `head`: its first bytes."""

    upload: str
    store_id: str
    part_size: int
    digest: str
    size: int
    head: bytes

    @property
    def staging_key(self) -> str:
        return f"staging-{self.upload}"


async def receive(resources: Resources, chunks: AsyncIterator[bytes], keep: int = 0) -> Received:
    """Streams into the staging area; no more than two parts are in memory. Needs no session.

    `keep`: how many of the first bytes are wanted back. Raises TooLarge, Unavailable; what had arrived is
    thrown away then.
    """
    store, upload = resources.blobs, new_id("upl")
    limit = min(resources.settings.max_upload_bytes, MOST_PARTS * PART_SIZE)
    store_id = await store.begin(f"staging-{upload}")
    try:
        digest, size, head = await _send(store, upload, store_id, chunks, keep, limit)
    except BaseException:
        await _abort(store, upload, store_id)
        raise
    return Received(upload, store_id, PART_SIZE, digest, size, head)


async def _send(
    store: BlobStore, upload: str, store_id: str, chunks: AsyncIterator[bytes], keep: int, limit: int
) -> tuple[str, int, bytes]:
    hasher, waiting, head = hashlib.sha256(), bytearray(), bytearray()
    size, number = 0, 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise TooLarge(
                f"more than {limit} bytes came; that is the limit of one file",
                "split the file, or raise SLIPWAY_MAX_UPLOAD_BYTES of the registry",
            )
        hasher.update(chunk)
        head += chunk[: keep - len(head)]
        waiting += chunk
        while len(waiting) >= PART_SIZE:
            number += 1
            await store.send_part(f"staging-{upload}", store_id, number, bytes(waiting[:PART_SIZE]))
            del waiting[:PART_SIZE]
    if waiting or number == 0:
        await store.send_part(f"staging-{upload}", store_id, number + 1, bytes(waiting))
    return f"sha256-{hasher.hexdigest()}", size, bytes(head)


async def _abort(store: BlobStore, upload: str, store_id: str) -> None:
    try:
        await store.abort(f"staging-{upload}", store_id)
    except Unavailable as error:
        log.warning("staging-%s is left in the staging area: %s", upload, error.detail)


async def record(unit: Unit, received: Received) -> None:
    """The received bytes become an upload that is being verified; or, where the blob exists, nothing."""
    store = unit.resources.blobs
    if await service.exists(unit.session, received.digest):
        unit.after_commit.append(lambda: _abort(store, received.upload, received.store_id))
        return
    row = UploadRow(
        id=received.upload,
        digest=received.digest,
        size=received.size,
        part_size=received.part_size,
        staging_key=received.staging_key,
        store_id=received.store_id,
        phase=UploadPhase.OPEN,
        expires_at=func.now() + service.LIFE,
        created_by=unit.actor,
    )
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    unit.audit("upload.create", row.subject, None, service.represent(row))
    await service.complete(unit, row.id)
