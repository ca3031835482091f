"""Blobs and rooms on this machine."""

import fcntl
import os
from pathlib import Path

import pytest

from builder.steps.step import Refused
from builder.store import Store
from registry.client import Client
from registry.client.transfer import digest_of
from registry.contract.versions import FileEntry

GIB = 1 << 30


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Its registry is never asked in these tests."""
    return Store(tmp_path / "work", Client("http://127.0.0.1:9"))


def kept(store: Store, tmp_path: Path, content: bytes) -> str:
    (tmp_path / "file").write_bytes(content)
    return store.keep(tmp_path / "file")


def test_what_is_kept_is_found_by_its_digest(store: Store, tmp_path: Path) -> None:
    digest = kept(store, tmp_path, b"content")
    assert store.blob(digest).read_bytes() == b"content"
    assert digest == digest_of(store.blob(digest))
    assert not (tmp_path / "file").exists()


def test_files_are_laid_out_under_their_paths_as_plain_files(store: Store, tmp_path: Path) -> None:
    digest = kept(store, tmp_path, b"content")
    store.lay_out((FileEntry(path="deep/er/model.onnx", digest=digest, size=7),), tmp_path / "out")
    laid = tmp_path / "out/deep/er/model.onnx"
    assert laid.read_bytes() == b"content"
    assert not laid.is_symlink()


@pytest.mark.parametrize("path", ["../out.onnx", "a/../../out.onnx", "/etc/out.onnx"])
def test_a_path_that_leads_out_is_refused(store: Store, tmp_path: Path, path: str) -> None:
    digest = kept(store, tmp_path, b"content")
    with pytest.raises(Refused, match="leads out of its folder"):
        store.lay_out((FileEntry(path=path, digest=digest, size=7),), tmp_path / "out")
    assert not Path("/etc/out.onnx").exists()


def test_a_room_is_empty_and_goes_away(store: Store) -> None:
    with store.room("tsk_1") as room:
        assert list(room.iterdir()) == []
        (room / "left").write_text("x")
    assert not room.exists()


def test_what_a_killed_worker_left_is_cleared_and_what_is_in_use_is_not(store: Store, tmp_path: Path) -> None:
    dead, alive = tmp_path / "work/rooms/tsk_dead", tmp_path / "work/rooms/tsk_alive"
    dead.mkdir()
    alive.mkdir()
    with (tmp_path / "work/rooms/.tsk_alive.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with store.room("tsk_new"):
            assert not dead.exists()
            assert alive.exists()


def test_the_blobs_unused_for_longest_go_first(store: Store, tmp_path: Path) -> None:
    digests = [kept(store, tmp_path, bytes([at]) * 1000) for at in range(3)]
    for at, digest in enumerate(digests):
        os.utime(store.blob(digest), (1000 + at, 1000 + at))
    store.trim(2000 / GIB)
    left = {path.name for path in (tmp_path / "work/blobs").glob("sha256-*")}
    assert left == set(digests[1:])
