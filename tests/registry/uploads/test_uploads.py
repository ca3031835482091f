"""Uploads: dedupe, resume, verification, and that nobody alters what is verified."""

import itertools

import pytest

from registry.blobs.store import BlobStore
from registry.client import ApiError, tasks, uploads
from registry.contract.tasks import VerifyOrder, VerifyResult
from registry.contract.tokens import Role
from registry.contract.uploads import UploadCreate, UploadPhase
from registry.lifecycle.parts import PART_SIZE, cuts, part_size
from tests import patience
from tests.registry.conftest import Registry, serving
from tests.registry.support import (
    claimed,
    digest_of,
    expire_lease,
    queued,
    read,
    run_sql,
    send_parts,
    sent,
    stored,
    verify_all,
)

BIG = bytes(range(256)) * (PART_SIZE // 256) + b"and a little more"


def _create(content: bytes) -> UploadCreate:
    return UploadCreate(digest=digest_of(content), size=len(content))


async def _bytes_of(registry: Registry, digest: str) -> bytes:
    async with patience.async_client() as store:
        answer = await store.get(await registry.client.location(uploads.content(digest)))
        answer.raise_for_status()
        return answer.content


@pytest.mark.parametrize("content", [b"", b"x", BIG])
async def test_bytes_become_a_blob(registry: Registry, content: bytes) -> None:
    digest = await stored(registry, content)
    blob = await registry.client(uploads.blob(digest))
    assert (blob.digest, blob.size) == (digest, len(content))
    assert await _bytes_of(registry, digest) == content
    again = await registry.client(uploads.create(_create(content)))
    assert (again.exists, again.parts) == (True, ())


async def test_nothing_is_a_blob_before_it_is_verified(registry: Registry) -> None:
    upload = await sent(registry, b"unverified")
    assert upload.phase == UploadPhase.VERIFYING
    with pytest.raises(ApiError, match="there is no blob") as refused:
        await registry.client.location(uploads.content(upload.digest))
    assert refused.value.status == 404


async def test_wrong_bytes_are_rejected_with_what_was_found(registry: Registry) -> None:
    upload = await sent(registry, b"other", digest=digest_of(b"right"))
    assert upload.id is not None
    await verify_all(registry)
    rejected = await registry.client(uploads.get(upload.id))
    assert (rejected.phase, rejected.exists) == (UploadPhase.REJECTED, False)
    assert rejected.reason == f"declared was {digest_of(b'right')}, found {digest_of(b'other')}"
    assert (await registry.client(uploads.create(_create(b"right")))).id != upload.id


async def test_complete_names_the_parts_that_are_missing(registry: Registry) -> None:
    upload = await registry.client(uploads.create(_create(BIG)))
    assert upload.id is not None
    assert [part.size for part in upload.parts] == [PART_SIZE, 17]
    first = upload.model_copy(update={"parts": upload.parts[:1]})
    await send_parts(first, BIG)
    with pytest.raises(ApiError, match=r"have not arrived: 2$|have not arrived: 2 ") as refused:
        await registry.client(uploads.complete(upload.id))
    assert refused.value.status == 409
    resumed = await registry.client(uploads.create(_create(BIG)))
    assert resumed.id == upload.id
    assert [part.url is None for part in resumed.parts] == [True, False]
    await send_parts(resumed, BIG)
    assert (await registry.client(uploads.complete(upload.id))).phase == UploadPhase.VERIFYING
    assert (await registry.client(uploads.complete(upload.id))).phase == UploadPhase.VERIFYING
    assert len(await queued(registry)) == 1


async def test_a_truncated_part_is_told_and_can_be_sent_again(registry: Registry) -> None:
    content = b"the whole content"
    upload = await registry.client(uploads.create(_create(content)))
    assert upload.id is not None
    async with patience.async_client() as store:
        (part,) = upload.parts
        assert part.url is not None
        (await store.put(part.url, content=content[:5])).raise_for_status()
    with pytest.raises(ApiError, match="part 1 has 5 bytes; 17 were declared") as refused:
        await registry.client(uploads.complete(upload.id))
    assert refused.value.status == 422
    await send_parts(await registry.client(uploads.get(upload.id)), content)
    await registry.client(uploads.complete(upload.id))
    await verify_all(registry)
    assert await _bytes_of(registry, upload.digest) == content


async def test_a_completion_whose_commit_was_lost_is_repeated(registry: Registry) -> None:
    upload = await sent(registry, b"joined")
    assert upload.id is not None
    await run_sql(registry, "UPDATE uploads SET phase = 'open', task_id = NULL")
    await run_sql(registry, "DELETE FROM tasks")
    seen = await registry.client(uploads.get(upload.id))
    assert [part.url for part in seen.parts] == [None]
    assert (await registry.client(uploads.complete(upload.id))).phase == UploadPhase.VERIFYING
    await verify_all(registry)
    assert await _bytes_of(registry, upload.digest) == b"joined"


async def test_a_promotion_whose_commit_was_lost_is_repeated(registry: Registry) -> None:
    upload = await sent(registry, b"promoted")
    (task,) = await queued(registry)
    first = await claimed(registry.client, task)
    assert isinstance(first.order, VerifyOrder)
    digest, size, etag = await read(first.order)
    store = BlobStore(registry.settings)
    await store.promote(f"staging-{upload.id}", digest, etag)
    store.close()
    await expire_lease(registry, task)
    second = await claimed(registry.client, task, "worker-2")
    result = VerifyResult(fence=second.fence, digest=digest, size=size, etag=etag)
    with pytest.raises(ApiError, match="held by worker-2"):
        await registry.client(tasks.finish_verify(task, result.model_copy(update={"fence": first.fence})))
    assert (await registry.client(tasks.finish_verify(task, result))).phase == "done"
    assert (await registry.client(tasks.finish_verify(task, result))).phase == "done"
    assert await _bytes_of(registry, digest) == b"promoted"


async def test_bytes_that_change_after_they_were_read_are_rejected(registry: Registry) -> None:
    upload = await sent(registry, b"honest")
    (task,) = await queued(registry)
    lease = await claimed(registry.client, task)
    result = VerifyResult(fence=lease.fence, digest=upload.digest, size=6, etag='"another"')
    await registry.client(tasks.finish_verify(task, result))
    assert upload.id is not None
    rejected = await registry.client(uploads.get(upload.id))
    assert rejected.reason == "the bytes were changed while they were being verified"


async def test_a_second_writer_alters_nothing(registry: Registry) -> None:
    other = await registry.as_role(Role.PUBLISHER)
    body = _create(b"honest")
    lie = await other(uploads.create(body))
    await stored(registry, b"honest")
    assert lie.id is not None
    await send_parts(lie, b"HONEST")
    await other(uploads.complete(lie.id))
    await verify_all(registry)
    assert (await other(uploads.get(lie.id))).phase == UploadPhase.REJECTED
    assert await _bytes_of(registry, body.digest) == b"honest"


async def test_an_upload_is_its_owners(registry: Registry) -> None:
    upload = await registry.client(uploads.create(_create(b"mine")))
    other = await registry.as_role(Role.PUBLISHER)
    assert upload.id is not None
    with pytest.raises(ApiError, match="belongs to admin") as refused:
        await other(uploads.get(upload.id))
    assert refused.value.status == 403


async def test_an_upload_outlives_its_api(registry: Registry) -> None:
    upload = await registry.client(uploads.create(_create(BIG)))
    await send_parts(upload.model_copy(update={"parts": upload.parts[1:]}), BIG)
    async with serving(registry.settings) as url:
        other = Registry(url, registry.settings, registry.client, [])
        client = other.with_token("test-admin-token")
        resumed = await client(uploads.create(_create(BIG)))
        assert [part.url is None for part in resumed.parts] == [False, True]
        await send_parts(resumed, BIG)
        assert resumed.id is not None
        await client(uploads.complete(resumed.id))
        await client.close()
    await verify_all(registry)
    assert await _bytes_of(registry, upload.digest) == BIG


async def test_an_aborted_upload_is_over(registry: Registry) -> None:
    upload = await registry.client(uploads.create(_create(b"never mind")))
    assert upload.id is not None
    assert (await registry.client(uploads.abort(upload.id))).phase == UploadPhase.ABORTED
    with pytest.raises(ApiError, match="is aborted: complete is not possible"):
        await registry.client(uploads.complete(upload.id))


async def test_a_declared_size_that_is_not_the_blobs_is_told(registry: Registry) -> None:
    digest = await stored(registry, b"five5")
    with pytest.raises(ApiError, match="has 5 bytes, not 6 as declared"):
        await registry.client(uploads.create(UploadCreate(digest=digest, size=6)))


async def test_too_large_is_told(registry: Registry) -> None:
    size = registry.settings.max_upload_bytes + 1
    with pytest.raises(ApiError, match="the limit of one file is") as refused:
        await registry.client(uploads.create(UploadCreate(digest=digest_of(b""), size=size)))
    assert refused.value.status == 413


@pytest.mark.parametrize("size", [0, 1, PART_SIZE, PART_SIZE + 1, 100 * 1024**3, 5 * 1024**4])
def test_parts_cover_a_file_exactly(size: int) -> None:
    parts = list(cuts(size, part_size(size)))
    assert len(parts) <= 10_000
    assert sum(length for _, _, length in parts) == size
    assert [number for number, _, _ in parts] == list(range(1, len(parts) + 1))
    assert all(after[1] == before[1] + before[2] for before, after in itertools.pairwise(parts))
