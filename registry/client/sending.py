"""Sending the parts of an upload: several at once, each of them repeated alone where it fails."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from registry.client import uploads
from registry.client.errors import ApiError
from registry.client.moving import CHUNK, Meter, Patience, TransferFailed, store
from registry.client.transport import Client
from registry.contract.problems import ProblemType
from registry.contract.uploads import Part, Upload, UploadPhase


def send(client: Client, state: Upload, source: Path, meter: Meter, parallel: int) -> Upload:
    """Sends the parts of an open upload that are missing, and completes it.

    URLs that expire on the way are asked for anew. Raises TransferFailed, ApiError, Unreachable.
    """
    assert state.id is not None
    patience = Patience()
    with store() as to, ThreadPoolExecutor(parallel, thread_name_prefix="upload") as pool:
        while True:
            missing = [part for part in state.parts if part.url is not None]
            told = pool.map(lambda part: _put(to, source, part, meter), missing)
            failures = [failure for failure in told if failure is not None]
            if not failures:
                try:
                    return client(uploads.complete(state.id))
                except ApiError as error:
                    if error.kind != ProblemType.CONFLICT:
                        raise
                    failures = [error.problem.detail]
            if not patience.pause(moved=len(failures) < len(missing)):
                raise TransferFailed(
                    f"{source} did not arrive: {failures[0]}; the same upload goes on from there"
                )
            state = client(uploads.get(state.id))
            if state.phase is not UploadPhase.OPEN:
                return state
            assert state.id is not None


def _put(to: httpx.Client, source: Path, part: Part, meter: Meter) -> str | None:
    """None: it arrived; else what went wrong."""
    assert part.url is not None
    sent = 0

    def count(size: int) -> None:
        nonlocal sent
        sent += size
        meter.add(size)

    failure = None
    try:
        content = _slice(source, part, count)
        answer = to.put(part.url, content=content, headers={"content-length": str(part.size)})
        if not answer.is_success:
            failure = f"part {part.number}: the object store answered {answer.status_code}"
    except httpx.HTTPError as error:
        failure = f"part {part.number}: {error or type(error).__name__}"
    if failure is not None:
        meter.add(-sent)
    return failure


def _slice(source: Path, part: Part, count: Callable[[int], None]) -> Iterator[bytes]:
    with source.open("rb") as file:
        file.seek(part.offset)
        left = part.size
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
            count(len(chunk))
