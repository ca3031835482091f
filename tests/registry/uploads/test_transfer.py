"""Transfers as the command line, builders and nodes make them: resumable, verified, constant in memory."""

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.client import ApiError, Client, uploads
from registry.client.transfer import (
    DigestMismatch,
    TransferFailed,
    UploadRejected,
    download,
    upload,
    upload_bytes,
)
from registry.contract.uploads import UploadCreate
from registry.lifecycle.parts import PART_SIZE
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import digest_of, send_parts, stored, verifying

BIG = bytes(range(256)) * (2 * PART_SIZE // 256) + b"and a little more"


@pytest.fixture
def client(registry: Registry) -> Iterator[Client]:
    with Client(registry.url, ADMIN) as client:
        yield client


async def test_up_and_down(registry: Registry, client: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(BIG)
    seen: list[tuple[int, int]] = []
    async with verifying(registry):
        digest = await asyncio.to_thread(
            upload, client, source, progress=lambda done, total: seen.append((done, total))
        )
        assert digest == digest_of(BIG)
        assert await asyncio.to_thread(upload, client, source) == digest
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (len(BIG), len(BIG))
    dest = await asyncio.to_thread(download, client, digest, tmp_path / "deep" / "dest")
    assert dest.read_bytes() == BIG
    assert list(dest.parent.iterdir()) == [dest]


async def test_nothing_is_a_file_too(registry: Registry, client: Client, tmp_path: Path) -> None:
    async with verifying(registry):
        digest = await asyncio.to_thread(upload_bytes, client, b"")
    dest = await asyncio.to_thread(download, client, digest, tmp_path / "empty")
    assert dest.read_bytes() == b""


async def test_only_what_is_missing_is_sent(registry: Registry, client: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(BIG)
    begun = await registry.client(uploads.create(UploadCreate(digest=digest_of(BIG), size=len(BIG))))
    await send_parts(begun.model_copy(update={"parts": begun.parts[:2]}), BIG)
    seen: list[int] = []
    async with verifying(registry):
        await asyncio.to_thread(upload, client, source, progress=lambda done, _: seen.append(done))
    assert seen == [2 * PART_SIZE, len(BIG)]


async def test_a_lie_is_rejected(registry: Registry, client: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"not what was declared")
    async with verifying(registry):
        with pytest.raises(UploadRejected, match="found") as refused:
            await asyncio.to_thread(upload, client, source, digest=digest_of(b"x" * 21))
    assert refused.value.reason.startswith("declared was")


async def test_without_a_worker_the_wait_ends(client: Client, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"nobody verifies this")
    with pytest.raises(TransferFailed, match="a worker serves the queue verify"):
        await asyncio.to_thread(upload, client, source, timeout_s=0.2)


async def test_a_download_goes_on_where_it_was_cut(
    registry: Registry, client: Client, tmp_path: Path
) -> None:
    digest = await stored(registry, BIG)
    dest = tmp_path / "dest"
    partial = tmp_path / f".dest.{digest[7:23]}.part"
    partial.write_bytes(BIG[: PART_SIZE + 5])
    seen: list[int] = []
    await asyncio.to_thread(download, client, digest, dest, progress=lambda done, _: seen.append(done))
    assert seen[0] == PART_SIZE + 5
    assert dest.read_bytes() == BIG
    assert not partial.exists()


async def test_bytes_of_another_digest_never_appear(
    registry: Registry, client: Client, tmp_path: Path
) -> None:
    digest = await stored(registry, b"twelve bytes")
    dest = tmp_path / "dest"
    (tmp_path / f".dest.{digest[7:23]}.part").write_bytes(b"other")
    with pytest.raises(DigestMismatch, match=digest):
        await asyncio.to_thread(download, client, digest, dest)
    assert list(tmp_path.iterdir()) == []
    await asyncio.to_thread(download, client, digest, dest)
    assert dest.read_bytes() == b"twelve bytes"


async def test_two_downloads_to_one_place_take_turns(
    registry: Registry, client: Client, tmp_path: Path
) -> None:
    digest = await stored(registry, BIG)
    dest = tmp_path / "dest"
    await asyncio.gather(*(asyncio.to_thread(download, client, digest, dest) for _ in range(3)))
    assert dest.read_bytes() == BIG
    assert list(tmp_path.iterdir()) == [dest]


async def test_an_unknown_digest_is_told(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="there is no blob"):
        await asyncio.to_thread(download, client, digest_of(b"unknown"), tmp_path / "dest")


async def test_memory_does_not_grow_with_the_file(registry: Registry, client: Client, tmp_path: Path) -> None:
    digest = await stored(registry, BIG)
    tracemalloc.start()
    try:
        await asyncio.to_thread(download, client, digest, tmp_path / "dest")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PART_SIZE
