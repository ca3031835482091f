"""Small files: verified while their upload is completed, without a worker."""

import pytest
from mypy_boto3_s3 import S3Client

from registry.client import uploads, versions
from registry.client.errors import ApiError
from registry.contract.uploads import UploadCreate
from registry.settings import Settings
from tests import patience
from tests.registry.conftest import Registry
from tests.registry.support import declared, digest_of, make_model, queued, sent

CONTENT = b"small bytes"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"verify_at_once_bytes": 1024})


def _keys(s3: S3Client, bucket: str) -> set[str]:
    return {item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", ())}


async def test_a_version_of_small_files_is_ready_when_it_is_sealed(
    registry: Registry, s3: S3Client, bucket: str
) -> None:
    await make_model(registry)
    files = {"model.onnx": CONTENT, "empty.txt": b""}
    made = await registry.client(versions.create("animals", declared(files)))
    for content in files.values():
        upload = await sent(registry, content)
        assert (upload.phase, upload.exists) == ("verified", True)
        again = await registry.client(uploads.complete(str(upload.id)))
        assert again.phase == "verified"
    assert (await registry.client(versions.seal("animals", made.number))).stage == "ready"
    assert await queued(registry) == []
    url = await registry.client.location(uploads.content(digest_of(CONTENT)))
    async with patience.async_client() as store:
        assert (await store.get(url)).content == CONTENT
    assert {digest_of(content) for content in files.values()} <= _keys(s3, bucket)


async def test_a_sealed_version_learns_of_its_last_file(registry: Registry) -> None:
    """One file is large and waits for a worker; the version is sealed before the small one came once more."""
    await make_model(registry)
    files = {"model.onnx": b"x" * 2000, "labels.txt": CONTENT}
    made = await registry.client(versions.create("animals", declared(files)))
    assert (await sent(registry, files["model.onnx"])).phase == "verifying"
    assert (await sent(registry, files["labels.txt"])).phase == "verified"
    assert (await registry.client(versions.seal("animals", made.number))).stage == "verifying"
    assert len(await queued(registry)) == 1


async def test_other_bytes_are_rejected_and_never_stored(
    registry: Registry, s3: S3Client, bucket: str
) -> None:
    await make_model(registry)
    made = await registry.client(versions.create("animals", declared({"model.onnx": CONTENT})))
    upload = await sent(registry, b"SMALL BYTES", digest_of(CONTENT))
    assert upload.phase == "rejected" and digest_of(b"SMALL BYTES") in upload.reason
    assert digest_of(CONTENT) not in _keys(s3, bucket)
    with pytest.raises(ApiError, match=r"model\.onnx.*is rejected") as refused:
        await registry.client(versions.seal("animals", made.number))
    assert refused.value.status == 409


async def test_what_has_not_arrived_can_be_sent_again(registry: Registry) -> None:
    body = UploadCreate(digest=digest_of(CONTENT), size=len(CONTENT))
    opened = await registry.client(uploads.create(body))
    assert opened.id is not None and len(opened.parts) == 1
    with pytest.raises(ApiError, match="have not arrived: 1") as missing:
        await registry.client(uploads.complete(opened.id))
    assert missing.value.status == 409
    async with patience.async_client() as store:
        (await store.put(str(opened.parts[0].url), content=CONTENT[:4])).raise_for_status()
        with pytest.raises(ApiError, match="4 bytes arrived"):
            await registry.client(uploads.complete(opened.id))
        resumed = await registry.client(uploads.create(body))
        assert resumed.id == opened.id and resumed.parts[0].url is not None
        (await store.put(resumed.parts[0].url, content=CONTENT)).raise_for_status()
    assert [part.url for part in (await registry.client(uploads.get(opened.id))).parts] == [None]
    assert (await registry.client(uploads.complete(opened.id))).phase == "verified"


async def test_an_abort_throws_away_what_came(registry: Registry) -> None:
    opened = await registry.client(uploads.create(UploadCreate(digest=digest_of(CONTENT), size=len(CONTENT))))
    assert (await registry.client(uploads.abort(str(opened.id)))).phase == "aborted"
    assert (await sent(registry, CONTENT)).phase == "verified"
