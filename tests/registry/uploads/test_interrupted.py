"""The worst that happens to uploads: a kill in the middle, a byte that turns over, someone who lies."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mypy_boto3_s3 import S3Client

from registry.client import ApiError, AsyncClient, uploads, versions
from registry.contract.tokens import Role
from registry.contract.uploads import UploadCreate, UploadPhase
from registry.lifecycle.parts import PART_SIZE
from registry.settings import Settings
from tests import patience
from tests.registry.command import slipway, start
from tests.registry.conftest import ADMIN, Registry, serving
from tests.registry.support import (
    declared,
    digest_of,
    make_model,
    queued,
    ready_version,
    send_parts,
    sent,
    verify_all,
    verifying,
)
from tests.registry.uploads.tap import Tap, tapped

PARTS = 8


@pytest.fixture
async def tap(settings: Settings) -> AsyncIterator[Tap]:
    assert settings.s3_endpoint_url is not None
    async with tapped(settings.s3_endpoint_url) as tap:
        yield tap


@pytest.fixture
async def registry(settings: Settings, tap: Tap) -> AsyncIterator[Registry]:
    """A registry whose clients reach the object store through the tap."""
    through = settings.model_copy(update={"s3_endpoint_url": tap.url})
    async with serving(through) as url, AsyncClient(url, ADMIN) as client:
        made = Registry(url, through, client, [])
        yield made
        for other in made.clients:
            await other.close()


async def _arrived(registry: Registry, declaration: UploadCreate) -> set[int]:
    upload = await registry.client(uploads.create(declaration))
    return {part.number for part in upload.parts if part.url is None}


async def test_a_killed_upload_sends_only_what_is_missing(
    registry: Registry, tap: Tap, tmp_path: Path
) -> None:
    source = tmp_path / "weights.bin"
    source.write_bytes(random.Random(3).randbytes(PARTS * PART_SIZE - 5))
    declaration = UploadCreate(digest=digest_of(source.read_bytes()), size=source.stat().st_size)
    tap.delay_s = 0.01
    first = await start(registry, "upload", str(source))
    while len(await _arrived(registry, declaration)) < 2:
        await asyncio.sleep(0.02)
        assert first.returncode is None, await first.communicate()
    first.send_signal(signal.SIGKILL)
    await first.communicate()
    tap.delay_s = 0.0
    arrived = await _arrived(registry, declaration)
    assert arrived
    assert len(arrived) < PARTS
    tap.parts.clear()
    async with verifying(registry):
        out, _ = await slipway(registry, "upload", str(source), "-o", "jsonl")
    assert declaration.digest in out
    # A part that was on the wire at the kill may have arrived after `arrived` was asked for.
    assert tap.parts
    assert set(tap.parts) <= set(range(1, PARTS + 1)) - arrived
    assert len(tap.parts) == len(set(tap.parts))
    back = tmp_path / "back.bin"
    await slipway(registry, "download", declaration.digest, str(back))
    assert back.read_bytes() == source.read_bytes()


async def test_a_byte_that_turned_over_in_the_store_rejects_the_version(
    registry: Registry, s3: S3Client
) -> None:
    content = bytes(range(256)) * 100
    await make_model(registry)
    await registry.client(versions.create("animals", declared({"weights/model.onnx": content})))
    upload = await sent(registry, content)
    await registry.client(versions.seal("animals", 1))
    bucket = registry.settings.s3_bucket
    staging = s3.get_object(Bucket=bucket, Key=f"staging-{upload.id}")["Body"].read()
    assert staging == content
    damaged = staging[:500] + bytes([staging[500] ^ 1]) + staging[501:]
    s3.put_object(Bucket=bucket, Key=f"staging-{upload.id}", Body=damaged)
    await verify_all(registry)
    version = await registry.client(versions.get("animals", 1))
    assert version.stage == "rejected"
    assert version.stage_reason.startswith("weights/model.onnx: declared was sha256-")
    assert digest_of(damaged) in version.stage_reason
    found = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
    assert not [item for item in found if item.get("Key", "").startswith("sha256-")]
    with pytest.raises(ApiError, match="there is no blob"):
        await registry.client(uploads.blob(upload.digest))


async def test_what_is_sealed_stays_whoever_writes_under_its_name(registry: Registry) -> None:
    """The same name with other bytes is another version; the same digest with other bytes is a lie; and a
    part's URL is good for that part alone."""
    honest = {"model.onnx": b"honest bytes"}
    first = await ready_version(registry, files=honest)
    second = await ready_version(registry, files={"model.onnx": b"other bytes!"})
    assert (first.number, second.number) == (1, 2)
    liar = await registry.as_role(Role.PUBLISHER)
    begun = await liar(uploads.create(UploadCreate(digest=digest_of(b"unseen"), size=6)))
    (part,) = begun.parts
    assert part.url is not None
    forged = part.url.replace(f"staging-{begun.id}", digest_of(b"honest bytes"))
    async with patience.async_client() as store:
        assert (await store.put(forged, content=b"forged")).status_code == 403
    await send_parts(begun, b"forged")
    assert begun.id is not None
    await liar(uploads.complete(begun.id))
    late = (await liar(uploads.get(begun.id))).phase
    assert late == UploadPhase.VERIFYING
    await verify_all(registry)
    assert (await liar(uploads.get(begun.id))).phase == UploadPhase.REJECTED
    assert await registry.client(versions.get("animals", 1)) == first
    url = await registry.client.location(uploads.content(digest_of(b"honest bytes")))
    async with patience.async_client() as store:
        assert (await store.get(url)).content == b"honest bytes"
    assert await queued(registry) == []
