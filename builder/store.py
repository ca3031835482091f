"""Blobs on this machine: a cache by digest in front of the registry, and rooms to work in."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from builder.data.rows import DESCRIPTION, INDEX
from builder.steps.step import Refused
from registry.client import Client
from registry.client.transfer import digest_of, download, upload
from registry.contract.datasets import Dataset
from registry.contract.identity import Digest
from registry.contract.versions import FileEntry

GIB = 1 << 30


class Store:
    """Safe to share between processes: blobs appear whole, and one process at a time fetches one."""

    def __init__(self, folder: Path, client: Client) -> None:
        self._blobs = folder / "blobs"
        self._rooms = folder / "rooms"
        self._client = client
        self._seen: dict[Digest, tuple[int, int]] = {}
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._rooms.mkdir(parents=True, exist_ok=True)

    def blob(self, digest: Digest) -> Path:
        """The bytes, verified; fetched where they are missing or damaged. Raises what `download` raises."""
        path = self._blobs / digest
        with _locked(self._blobs / f".{digest}.lock"):
            if self._sound(path, digest):
                os.utime(path)
                return path
            path.unlink(missing_ok=True)
            download(self._client, digest, path)
            self._remember(path, digest)
        return path

    def keep(self, path: Path) -> Digest:
        """Moves a file into the cache and returns its digest."""
        digest = digest_of(path)
        kept = self._blobs / digest
        with _locked(self._blobs / f".{digest}.lock"):
            path.replace(kept)
            self._remember(kept, digest)
        return digest

    def upload(self, digest: Digest) -> None:
        """Raises what `registry.client.transfer.upload` raises. Nothing is sent twice."""
        upload(self._client, self.blob(digest), digest=digest)

    def lay_out(self, files: tuple[FileEntry, ...], folder: Path) -> Path:
        """The files under their paths. Raises Refused on a path that leaves the folder."""
        for file in files:
            where = folder / file.path
            if ".." in Path(file.path).parts or not where.resolve().is_relative_to(folder.resolve()):
                raise Refused(f"{file.path!r} leads out of its folder; register the file under a plain path")
            where.parent.mkdir(parents=True, exist_ok=True)
            _place(self.blob(file.digest), where)
        return folder

    def lay_out_dataset(self, dataset: Dataset, folder: Path) -> Path:
        """As `builder.data.rows` reads it."""
        self.lay_out(dataset.shards, folder)
        _place(self.blob(dataset.index.digest), folder / INDEX)
        (folder / DESCRIPTION).write_text(dataset.model_dump_json())
        return folder

    @contextlib.contextmanager
    def room(self, name: str) -> Iterator[Path]:
        """An empty folder for the time of a piece of work. What killed workers left is cleared away."""
        for left in self._rooms.iterdir():
            if left.is_dir():
                with contextlib.suppress(BlockingIOError), _locked(_lock_of(left), wait=False):
                    shutil.rmtree(left, ignore_errors=True)
        room = self._rooms / name
        with _locked(_lock_of(room)):
            shutil.rmtree(room, ignore_errors=True)
            room.mkdir()
            try:
                yield room
            finally:
                shutil.rmtree(room, ignore_errors=True)

    def trim(self, limit_gib: float) -> None:
        """Drops the blobs that were not used for longest until the rest fits."""
        blobs = sorted(
            ((path.stat().st_mtime, path.stat().st_size, path) for path in self._blobs.glob("sha256-*")),
            reverse=True,
        )
        total = 0
        for _, size, path in blobs:
            total += size
            if total > limit_gib * GIB:
                path.unlink(missing_ok=True)

    def _sound(self, path: Path, digest: Digest) -> bool:
        """Hashed once per process and change: a damaged disk must not reach an engine."""
        try:
            state = path.stat()
        except FileNotFoundError:
            return False
        if self._seen.get(digest) == (state.st_size, state.st_ino):
            return True
        if digest_of(path) != digest:
            return False
        self._remember(path, digest)
        return True

    def _remember(self, path: Path, digest: Digest) -> None:
        state = path.stat()
        self._seen[digest] = (state.st_size, state.st_ino)


def _lock_of(room: Path) -> Path:
    return room.with_name(f".{room.name}.lock")


@contextlib.contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Raises BlockingIOError when another process holds it and `wait` is False."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def _place(blob: Path, where: Path) -> None:
    """A hard link, so that nothing is copied and nothing is a symbolic link; a copy across file systems."""
    where.unlink(missing_ok=True)
    try:
        os.link(blob, where)
    except OSError:
        shutil.copyfile(blob, where)
