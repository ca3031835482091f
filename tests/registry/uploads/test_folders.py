"""Folders as versions: what is taken, what is refused, and that they come back as they were."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.client import ApiError, Client, datasets, folders, versions
from registry.client.moving import TransferFailed
from registry.contract.datasets import DatasetCreate
from registry.contract.versions import FileEntry
from slipway.client import Client as People
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import (
    contract,
    declared,
    digest_of,
    entry,
    make_dataset,
    make_model,
    stored,
    verifying,
)


@pytest.fixture
def people(registry: Registry) -> Iterator[People]:
    with People(registry.url, ADMIN) as client:
        yield client


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """As a model hub lays it out: links into a folder of blobs, one of them twice."""
    blobs = tmp_path / "blobs"
    folder = tmp_path / "snapshots" / "4f1e"
    (folder / "onnx").mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1").write_bytes(b"weights")
    (blobs / "2").write_bytes(b"{}")
    (folder / "onnx" / "model.onnx").symlink_to(blobs / "1")
    (folder / "config.json").symlink_to(blobs / "2")
    (folder / "generation_config.json").symlink_to(blobs / "2")
    (folder / ".gitattributes").write_bytes(b"")
    return folder


async def test_a_snapshot_becomes_a_version_and_comes_back(
    registry: Registry, people: People, snapshot: Path, tmp_path: Path
) -> None:
    async with verifying(registry):
        made = await asyncio.to_thread(people.register, "animals", snapshot, contract())
    assert made.stage == "ready"
    assert [file.path for file in made.files] == [
        ".gitattributes",
        "config.json",
        "generation_config.json",
        "onnx/model.onnx",
    ]
    dest = tmp_path / "dest"
    (dest / "onnx").mkdir(parents=True)
    (dest / "onnx" / "model.onnx").write_bytes(b"WEIGHTS")
    (dest / "config.json").write_bytes(b"{}")
    untouched = (dest / "config.json").stat().st_mtime_ns
    await asyncio.to_thread(people.download, "animals@1", dest)
    assert folders.files_of(dest).keys() == folders.files_of(snapshot).keys()
    for name, path in folders.files_of(dest).items():
        assert path.read_bytes() == (snapshot / name).read_bytes()
    assert (dest / "config.json").stat().st_mtime_ns == untouched


async def test_a_data_set_and_a_digest_come_back(registry: Registry, people: People, tmp_path: Path) -> None:
    made = await make_dataset(registry, "valset")
    await asyncio.to_thread(people.download, "dataset:valset@1", tmp_path / "set")
    assert (tmp_path / "set" / "rows.tar").read_bytes() == b"shard of valset"
    digest = made.index.digest
    await asyncio.to_thread(people.download, digest, tmp_path)
    assert digest_of((tmp_path / digest).read_bytes()) == digest
    with pytest.raises(ValueError, match="is nothing to download"):
        people.download("model:valset@1", tmp_path)


def test_what_has_no_place_in_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="name the model file or its folder"):
        folders.files_of(tmp_path / "nothing")
    with pytest.raises(ValueError, match="holds no file"):
        folders.files_of(tmp_path)
    (tmp_path / "broken").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="is a link to nowhere"):
        folders.files_of(tmp_path)
    (tmp_path / "broken").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        folders.files_of(tmp_path)
    (tmp_path / "pipe").unlink()
    (tmp_path / "up").symlink_to(tmp_path.parent)
    with pytest.raises(ValueError, match="is a link to a folder"):
        folders.files_of(tmp_path)
    (tmp_path / "up").unlink()
    (tmp_path / os.fsdecode(b"latin-\xe9")).write_bytes(b"")
    with pytest.raises(ValueError, match="is no UTF-8"):
        folders.files_of(tmp_path)


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", "link/outside", "a\\..\\b"])
def test_nothing_is_written_outside_of_the_folder(path: str, tmp_path: Path) -> None:
    """Whatever a registry says: it is not asked for a byte, for nobody listens there."""
    dest = tmp_path / "dest"
    dest.mkdir()
    (dest / "link").symlink_to(tmp_path)
    with Client("http://127.0.0.1:9") as client, pytest.raises(TransferFailed, match="leads out of"):
        folders.download_all(client, [FileEntry(path=path, digest=digest_of(b""), size=0)], dest)


async def test_limits_and_reserved_names_are_told(registry: Registry, people: People, tmp_path: Path) -> None:
    (tmp_path / "aux.onnx").write_bytes(b"x")
    with pytest.raises(ApiError, match="a device on some systems"):
        await asyncio.to_thread(people.register, "animals", tmp_path, contract())
    big = FileEntry(path="big", digest=digest_of(b"big"), size=registry.settings.max_version_bytes)
    await make_model(registry)
    declaration = declared().model_copy(update={"files": (*declared().files, big)})
    with pytest.raises(ApiError, match="the limit is") as refused:
        await registry.client(versions.create("animals", declaration))
    assert refused.value.status == 413
    await stored(registry, b"{}")
    clash = DatasetCreate(
        name="rows",
        kind="validation",
        form="raw",
        shards=(entry("Dataset.json", b"{}"),),
        index=entry("index.jsonl", b"{}"),
        rows=1,
    )
    with pytest.raises(ApiError, match="is a reserved name"):
        await registry.client(datasets.create(clash))
