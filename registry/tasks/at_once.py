"""Small files are verified while their upload is completed: a queue would cost more than reading them."""

import asyncio
import hashlib

from registry.contract.uploads import Upload, UploadPhase
from registry.edge.unit import Unit
from registry.tasks import orders
from registry.uploads import service as uploads


async def complete(unit: Unit, upload_id: str) -> Upload:
    """open → verified or rejected for a small file, open → verifying for another. Repeating it changes
    nothing.

    What was read back of the staging area, and hashed, is what is written under the final key: nobody can
    change it in between. Where this process dies before the commit, the object is one that no row knows; the
    same bytes are written there again, or the collector takes it. Raises Conflict naming parts that are
    missing, Invalid where sizes are wrong, Unavailable.
    """
    row = await uploads.own(unit, upload_id, lock=True)
    limit = unit.resources.settings.verify_at_once_bytes
    if row.phase != UploadPhase.OPEN or not row.in_one_piece or row.size > limit:
        return await uploads.complete(unit, upload_id)
    content = await unit.resources.blobs.read(row.staging_key, row.size)
    if content is None or len(content) != row.size:
        return await uploads.complete(unit, upload_id)
    sha256 = await asyncio.to_thread(lambda: hashlib.sha256(content).digest())
    reason = orders.difference(row.size, row.digest, len(content), f"sha256-{sha256.hex()}")
    await uploads.arrive(unit, row)
    key = None if reason else await uploads.place_for(unit.session, row.digest)
    if key is not None:
        await unit.resources.blobs.write(key, content, sha256)
    await orders.settle(unit, row.id, reason, key)
    return uploads.represent(row)
