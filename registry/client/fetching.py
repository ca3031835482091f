"""Fetching a blob: to a partial file that is gone on with, and that takes its name once it is verified."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx

from registry.client import uploads
from registry.client.moving import (
    CHUNK,
    DigestMismatch,
    Meter,
    Patience,
    Progress,
    TransferFailed,
    store,
)
from registry.client.transport import Client


def download(client: Client, digest: str, dest: Path, *, progress: Progress | None = None) -> Path:
    """Fetches a blob to `dest`, which appears whole and verified or not at all.

    What an interrupted call has fetched lies beside it and is used by the next one. Raises DigestMismatch,
    TransferFailed, ApiError, Unreachable.
    """
    size = client(uploads.blob(digest)).size
    dest.parent.mkdir(parents=True, exist_ok=True)
    # Cut, so that the longest name that a file may have leaves room for the rest.
    short = dest.name.encode()[:200].decode(errors="ignore")
    partial = dest.with_name(f".{short}.{digest[7:23]}.part")
    with client.riding_out(), _alone(partial) as file:
        found = _fetch(client, digest, size, file, progress)
        if found != digest:
            partial.unlink()
            raise DigestMismatch(digest, found)
        partial.replace(dest)
    return dest


def _fetch(client: Client, digest: str, size: int, file: BinaryIO, progress: Progress | None) -> str:
    """Completes the partial file, and gives the digest of what it holds then."""
    hasher, have = _rehash(file, size)
    meter = Meter(size, progress)
    meter.add(have)
    patience = Patience()
    with store() as at:
        while True:
            before = have
            try:
                url = client.location(uploads.content(digest))
                for chunk in _range(at, url, have, size):
                    file.write(chunk)
                    hasher.update(chunk)
                    have += len(chunk)
                    meter.add(len(chunk))
            except httpx.HTTPError as error:
                failure = f"{have} of {size} bytes of {digest} came: {error or type(error).__name__}"
            else:
                failure = f"only {have} of {size} bytes of {digest} came"
            if have >= size:
                break
            if not patience.pause(moved=have > before):
                raise TransferFailed(f"{failure}; the same download goes on from there")
    file.flush()
    os.fsync(file.fileno())
    return f"sha256-{hasher.hexdigest()}"


@contextmanager
def _alone(partial: Path) -> Iterator[BinaryIO]:
    """The partial file, for one process at a time: two downloads to one place take turns."""
    while True:
        with partial.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever had it before may have moved it to its final place meanwhile.
            if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
                yield file
                return


def _rehash(file: BinaryIO, size: int) -> "tuple[hashlib._Hash, int]":
    """The hash of what an earlier call fetched; more than there is to fetch can't be right and is dropped."""
    file.seek(0, os.SEEK_END)
    if file.tell() > size:
        file.truncate(0)
    file.seek(0)
    hasher = hashlib.sha256()
    while chunk := file.read(CHUNK):
        hasher.update(chunk)
    return hasher, file.tell()


def _range(at: httpx.Client, url: str, have: int, size: int) -> Iterator[bytes]:
    """The bytes from `have` on."""
    if have == size:
        return
    headers = {"accept-encoding": "identity"} | ({"range": f"bytes={have}-"} if have else {})
    with at.stream("GET", url, headers=headers) as answer:
        if answer.status_code != (206 if have else 200):
            raise httpx.HTTPStatusError(
                f"the object store answered {answer.status_code}", request=answer.request, response=answer
            )
        yield from answer.iter_raw(CHUNK)
