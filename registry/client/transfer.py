"""Moving bytes: resumable uploads to presigned part URLs, resumable downloads with a digest check.

Bytes go straight to and from the object store; the registry's token is never sent there. Memory is constant
in the size of a file.
"""

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx

from registry.client import uploads
from registry.client.errors import ApiError
from registry.client.transport import Client
from registry.contract.problems import ProblemType
from registry.contract.uploads import Part, Upload, UploadCreate, UploadPhase

Progress = Callable[[int, int], None]

CHUNK = 1 << 20
ATTEMPTS = 5
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
_TIMEOUT = httpx.Timeout(60, connect=5)


class TransferFailed(Exception):
    """The bytes could not be moved. What has arrived is kept: the same call again goes on from there."""


class UploadRejected(TransferFailed):
    """What arrived is not what was declared; the reason is the registry's."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(f"the upload of {digest} was rejected: {reason}")
        self.digest = digest
        self.reason = reason


class DigestMismatch(TransferFailed):
    """The downloaded bytes are not those of the digest; they were thrown away."""

    def __init__(self, digest: str, found: str) -> None:
        super().__init__(
            f"the download of {digest} came out as {found} and was thrown away; fetch it again, and if that "
            "repeats, the object store is damaged"
        )


class _Meter:
    """Adds up bytes from several threads and tells them one at a time; a part counts once."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._total = total
        self._progress = progress
        self._parts: set[int] = set()

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress(self._done, self._total)

    def part(self, part: Part) -> None:
        with self._lock:
            known = part.number in self._parts
            self._parts.add(part.number)
        if not known:
            self.add(part.size)


def digest_of(source: Path) -> str:
    """`sha256-<hex>` of a file."""
    with source.open("rb") as file:
        return f"sha256-{hashlib.file_digest(file, 'sha256').hexdigest()}"


def upload(
    client: Client,
    source: Path,
    *,
    digest: str | None = None,
    progress: Progress | None = None,
    parallel: int = 4,
    timeout_s: float = 3600,
) -> str:
    """Uploads a file and waits until the registry has verified it; the answer is its digest.

    Nothing is sent when the registry has the bytes already, and only what is missing when an earlier call
    was interrupted. `progress` gets bytes done and bytes in all. `timeout_s` bounds the wait for the
    verification. Raises UploadRejected, TransferFailed, ApiError, Unreachable.
    """
    digest = digest or digest_of(source)
    size = source.stat().st_size
    state = client(uploads.create(UploadCreate(digest=digest, size=size)))
    meter = _Meter(size, progress)
    if state.exists or state.id is None:
        meter.add(size)
        return digest
    for part in state.parts:
        if part.url is None:
            meter.part(part)
    if state.phase is UploadPhase.OPEN:
        state = _send(client, state.id, state, source, meter, parallel)
    _wait_verified(client, state, timeout_s)
    return digest


def upload_bytes(client: Client, content: bytes, *, progress: Progress | None = None) -> str:
    """As `upload`, for what is in memory."""
    with tempfile.TemporaryDirectory(prefix="slipway-upload-") as folder:
        source = Path(folder) / "content"
        source.write_bytes(content)
        return upload(client, source, progress=progress)


def download(client: Client, digest: str, dest: Path, *, progress: Progress | None = None) -> Path:
    """Fetches a blob to `dest`, which appears whole and verified or not at all.

    What an interrupted call has fetched lies beside it and is used by the next one. Raises DigestMismatch,
    TransferFailed, ApiError, Unreachable.
    """
    size = client(uploads.blob(digest)).size
    dest.parent.mkdir(parents=True, exist_ok=True)
    partial = dest.with_name(f".{dest.name}.{digest[7:23]}.part")
    with _alone(partial) as file:
        found = _fetch(client, digest, size, file, progress)
        if found != digest:
            partial.unlink()
            raise DigestMismatch(digest, found)
        partial.replace(dest)
    return dest


def _fetch(client: Client, digest: str, size: int, file: BinaryIO, progress: Progress | None) -> str:
    """Completes the partial file, and gives the digest of what it holds then."""
    hasher, have = _rehash(file, size)
    meter = _Meter(size, progress)
    meter.add(have)
    with _store() as store:
        for pause in _pauses():
            try:
                url = client.location(uploads.content(digest))
                for chunk in _range(store, url, have, size):
                    file.write(chunk)
                    hasher.update(chunk)
                    have += len(chunk)
                    meter.add(len(chunk))
            except httpx.HTTPError as error:
                failure = f"{have} of {size} bytes of {digest} came: {error or type(error).__name__}"
            else:
                failure = f"only {have} of {size} bytes of {digest} came"
            if have == size:
                break
            if pause is None:
                raise TransferFailed(f"{failure}; the same download goes on from there")
            time.sleep(pause)
    file.flush()
    os.fsync(file.fileno())
    return f"sha256-{hasher.hexdigest()}"


def _store() -> httpx.Client:
    """A client of its own for the object store: without the registry's token and address."""
    return httpx.Client(timeout=_TIMEOUT, trust_env=False)


def _pauses() -> Iterator[float | None]:
    """Waits after each of the attempts; None after the last."""
    for attempt in range(ATTEMPTS - 1):
        yield min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
    yield None


def _send(
    client: Client, upload_id: str, state: Upload, source: Path, meter: _Meter, parallel: int
) -> Upload:
    """Sends the missing parts, asks again what is missing, and completes the upload."""

    def put(part: Part) -> str | None:
        failure = _put(store, source, part)
        if failure is None:
            meter.part(part)
        return failure

    with _store() as store, ThreadPoolExecutor(parallel, thread_name_prefix="upload") as pool:
        for pause in _pauses():
            missing = [part for part in state.parts if part.url is not None]
            failures = [failure for failure in pool.map(put, missing) if failure is not None]
            if not failures:
                try:
                    return client(uploads.complete(upload_id))
                except ApiError as error:
                    if error.kind != ProblemType.CONFLICT:
                        raise
                    failures = [error.problem.detail]
            if pause is None:
                break
            time.sleep(pause)
            state = client(uploads.get(upload_id))
            if state.phase is not UploadPhase.OPEN:
                return state
    raise TransferFailed(f"{source} did not arrive: {failures[0]}; the same upload goes on from there")


def _put(store: httpx.Client, source: Path, part: Part) -> str | None:
    """None: it arrived; else what went wrong. The caller asks for fresh URLs and repeats what is missing."""
    assert part.url is not None
    try:
        answer = store.put(part.url, content=_slice(source, part), headers={"content-length": str(part.size)})
    except httpx.HTTPError as error:
        return f"part {part.number}: {error or type(error).__name__}"
    if not answer.is_success:
        return f"part {part.number}: the object store answered {answer.status_code}"
    return None


def _slice(source: Path, part: Part) -> Iterator[bytes]:
    with source.open("rb") as file:
        file.seek(part.offset)
        left = part.size
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk


def _wait_verified(client: Client, state: Upload, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    pause = 0.05
    while state.phase is UploadPhase.VERIFYING:
        if time.monotonic() > end:
            raise TransferFailed(
                f"{state.digest} arrived but was not verified within {timeout_s:.0f} s; "
                "check that a worker serves the queue verify"
            )
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)
        assert state.id is not None
        state = client(uploads.get(state.id))
    if state.phase is UploadPhase.REJECTED:
        raise UploadRejected(state.digest, state.reason)
    if state.phase is not UploadPhase.VERIFIED:
        raise TransferFailed(
            f"the upload of {state.digest} is {state.phase}: {state.reason}; upload it again"
        )


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


def _range(store: httpx.Client, url: str, have: int, size: int) -> Iterator[bytes]:
    """The bytes from `have` on."""
    if have == size:
        return
    headers = {"accept-encoding": "identity"} | ({"range": f"bytes={have}-"} if have else {})
    with store.stream("GET", url, headers=headers) as answer:
        if answer.status_code != (206 if have else 200):
            raise httpx.HTTPStatusError(
                f"the object store answered {answer.status_code}", request=answer.request, response=answer
            )
        yield from answer.iter_raw(CHUNK)
