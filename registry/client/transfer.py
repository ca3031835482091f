"""Moving bytes: resumable uploads to presigned part URLs, resumable downloads with a digest check.

Bytes go straight to and from the object store; the registry's token is never sent there. Memory is constant
in the size of a file.
"""

import hashlib
import tempfile
import time
from pathlib import Path

from registry.client import uploads
from registry.client.fetching import download
from registry.client.moving import DigestMismatch, Meter, Progress, TransferFailed, UploadRejected
from registry.client.sending import send
from registry.client.transport import Client
from registry.contract.uploads import Upload, UploadCreate, UploadPhase

__all__ = [
    "DigestMismatch",
    "Progress",
    "TransferFailed",
    "UploadRejected",
    "digest_of",
    "download",
    "upload",
    "upload_bytes",
]


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
    timeout_s: float | None = 3600,
) -> str:
    """Uploads a file and waits until the registry has verified it; the answer is its digest.

    Nothing is sent when the registry has the bytes already, and only what is missing when an earlier call
    was interrupted, even by a kill. A registry that is away for a short while is waited for. `progress` gets
    bytes done and bytes in all. `timeout_s` bounds the wait for the verification; None: that is not waited
    for. Raises UploadRejected, TransferFailed, ApiError, Unreachable.
    """
    digest = digest or digest_of(source)
    with client.riding_out():
        return _upload(client, source, digest, progress, parallel, timeout_s)


def _upload(
    client: Client,
    source: Path,
    digest: str,
    progress: Progress | None,
    parallel: int,
    timeout_s: float | None,
) -> str:
    size = source.stat().st_size
    state = client(uploads.create(UploadCreate(digest=digest, size=size)))
    meter = Meter(size, progress)
    meter.add(size if state.id is None else sum(part.size for part in state.parts if part.url is None))
    if state.id is None:
        return digest
    if state.phase is UploadPhase.OPEN:
        state = send(client, state, source, meter, parallel)
    if timeout_s is not None:
        _wait_verified(client, state, timeout_s)
    return digest


def upload_bytes(client: Client, content: bytes, *, progress: Progress | None = None) -> str:
    """As `upload`, for what is in memory."""
    with tempfile.TemporaryDirectory(prefix="slipway-upload-") as folder:
        source = Path(folder) / "content"
        source.write_bytes(content)
        return upload(client, source, progress=progress)


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
