"""Folders as lists of files: a SavedModel, a snapshot from a model hub. Memory is constant in their size."""

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from registry.client.moving import TransferFailed
from registry.client.transfer import digest_of, download, upload
from registry.client.transport import Client
from registry.contract.versions import MAX_FILES, FileEntry

# Gets the file's path in the version, bytes done, bytes in all.
FileProgress = Callable[[str, int, int], None]

PARALLEL = 4
# From here on a file has several parts, which are sent beside one another.
BIG = 16 << 20


def files_of(source: Path) -> dict[str, Path]:
    """A file under its own name, or every file below a folder by its path there, sorted.

    A link to a file counts as that file (snapshots are made of links). Raises FileNotFoundError, and
    ValueError for what has no place in a version: links to folders, devices, names that are no UTF-8,
    too many files, none at all.
    """
    if source.is_file():
        return {source.name: source}
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is not there; name the model file or its folder")
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(source):
        here = Path(folder)
        for name in folders:
            if (here / name).is_symlink():
                raise ValueError(f"{here / name} is a link to a folder; put the folder itself there")
        for name in names:
            path = here / name
            found[_name_of(path.relative_to(source))] = _checked(path)
        if len(found) > MAX_FILES:
            raise ValueError(f"{source} holds more than {MAX_FILES} files; pack small ones into an archive")
    if not found:
        raise ValueError(f"{source} holds no file")
    return dict(sorted(found.items()))


def _name_of(path: Path) -> str:
    name = path.as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name!r} is no UTF-8; rename it") from error
    return name


def _checked(path: Path) -> Path:
    if path.is_file():
        return path
    if path.is_symlink():
        raise FileNotFoundError(f"{path} is a link to {path.readlink()}, which is not there")
    raise ValueError(f"{path} is no regular file; take it out of the folder")


def entries_of(files: Mapping[str, Path]) -> tuple[FileEntry, ...]:
    """The manifest: path, digest and size of each."""
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="digest") as pool:
        digests = pool.map(digest_of, files.values())
        return tuple(
            FileEntry(path=path, digest=digest, size=source.stat().st_size)
            for (path, source), digest in zip(files.items(), digests, strict=True)
        )


def upload_all(
    client: Client,
    files: Mapping[str, Path],
    entries: Collection[FileEntry],
    progress: FileProgress | None = None,
) -> None:
    """Sends what the registry does not have yet; the verification is not waited for: it decides whether the
    version becomes ready. Raises TransferFailed, ApiError, Unreachable."""

    def send(entry: FileEntry) -> None:
        told = None if progress is None else _told(progress, entry)
        upload(client, files[entry.path], digest=entry.digest, progress=told, timeout_s=None)

    once = {entry.digest: entry for entry in entries}.values()
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="upload-file") as pool:
        list(pool.map(send, [entry for entry in once if entry.size <= BIG]))
    for entry in once:
        if entry.size > BIG:
            send(entry)


def download_all(
    client: Client, entries: Collection[FileEntry], folder: Path, progress: FileProgress | None = None
) -> Path:
    """The files under their paths. One that is there and right is not fetched again; interrupted ones go on.

    Raises TransferFailed for a path that leads out of the folder, DigestMismatch, ApiError, Unreachable.
    """
    places = {entry.path: _place(folder, entry.path) for entry in entries}

    def fetch(entry: FileEntry) -> None:
        told = None if progress is None else _told(progress, entry)
        where = places[entry.path]
        if where.is_file() and where.stat().st_size == entry.size and digest_of(where) == entry.digest:
            if told is not None:
                told(entry.size, entry.size)
            return
        download(client, entry.digest, where, progress=told)

    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="download-file") as pool:
        list(pool.map(fetch, entries))
    return folder


def _place(folder: Path, name: str) -> Path:
    """The registry checks names too; what is written to this disk is not left to it."""
    path = PurePosixPath(name)
    where = folder / path
    if path.is_absolute() or ".." in path.parts or "\\" in name or not _is_below(where, folder):
        raise TransferFailed(
            f"the registry names a file {name!r}, which leads out of {folder}; nothing was written"
        )
    return where


def _is_below(where: Path, folder: Path) -> bool:
    return where.resolve().is_relative_to(folder.resolve())


def _told(progress: FileProgress, entry: FileEntry) -> Callable[[int, int], None]:
    return lambda done, total: progress(entry.path, done, total)
