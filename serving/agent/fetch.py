"""Brings engine bytes to the disk: by digest, resumable, verified, renamed into place at the end."""

import asyncio
import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from registry.contract.nodes import EngineRef
from registry.contract.versions import FileEntry
from serving.agent.snapshot import Download
from serving.agent.state import StateDirectory, sync_folder

CHUNK = 1 << 18
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
DISK_RESERVE = 64 << 20
TIMEOUT = httpx.Timeout(10.0, read=30.0)
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class FetchError(Exception):
    """This attempt failed; another one may succeed."""


class WrongBytes(Exception):
    """What the store gives under this digest is something else: no attempt will succeed."""


class Fetcher:
    """Downloads side by side, one per digest. `changed` is called whenever one ends or fails.

    `bad` is called with a digest and the reason when the bytes are not those of the digest.
    """

    def __init__(
        self,
        url: str,
        token: str,
        state: StateDirectory,
        changed: Callable[[], None],
        bad: Callable[[str, str], None],
    ) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._state = state
        self._changed = changed
        self._bad = bad
        self._http = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False, follow_redirects=False)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self.downloads: dict[str, Download] = {}
        """Of each digest that is not on disk yet and was asked for."""
        self.disk: tuple[str, ...] = state.digests()
        """Digests whose bytes are here in whole, the newest first."""

    def start(self, blob: EngineRef | FileEntry) -> None:
        """Begin, or try again. Does nothing while an attempt runs."""
        if blob.digest in self._tasks:
            return
        self.downloads[blob.digest] = Download(progress=0.0)
        task = asyncio.create_task(self._run(blob), name=f"fetch {blob.digest}")
        self._tasks[blob.digest] = task

    def drop(self, digest: str) -> None:
        """Delete the bytes of a digest."""
        self._state.drop_engine(digest)
        self.disk = tuple(item for item in self.disk if item != digest)

    def forget(self, digest: str) -> None:
        """Try a failed digest at once when it is next asked for."""
        self._failures.pop(digest, None)
        if digest not in self._tasks:
            self.downloads.pop(digest, None)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()

    async def _run(self, blob: EngineRef | FileEntry) -> None:
        digest = blob.digest
        try:
            await self._attempt(blob)
        except WrongBytes as error:
            self.downloads.pop(digest, None)
            self._bad(digest, str(error))
        except (FetchError, httpx.HTTPError, OSError) as error:
            failures = self._failures[digest] = self._failures.get(digest, 0) + 1
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
            pause *= 0.5 + random.random() / 2  # noqa: S311 - jitter is no secret
            reason = (
                f"download failed ({error or type(error).__name__}), attempt {failures + 1} in {pause:.1f} s"
            )
            progress = self.downloads[digest].progress
            self.downloads[digest] = Download(progress, reason, time.monotonic() + pause)
        else:
            self._failures.pop(digest, None)
            self.downloads.pop(digest, None)
            self.disk = (digest, *self.disk)
        finally:
            self._tasks.pop(digest, None)
            self._changed()

    async def _attempt(self, blob: EngineRef | FileEntry) -> None:
        final = self._state.engine(blob.digest)
        final.parent.mkdir(parents=True, exist_ok=True)
        part = final.with_suffix(".part")
        free = shutil.disk_usage(final.parent).free
        if free < blob.size + DISK_RESERVE:
            raise FetchError(
                f"the disk of {self._state.root} has {free / 1e6:.0f} MB free and this download needs "
                f"{blob.size / 1e6:.0f} MB: make room"
            )
        resumed = part.exists() and 0 < part.stat().st_size <= blob.size
        if await self._receive(blob, part, resumed) != blob.digest:
            part.unlink(missing_ok=True)
            if resumed:
                raise FetchError("the resumed bytes did not have the digest, starting from the beginning")
            raise WrongBytes(
                f"the bytes under {blob.digest} have another digest: the object store is damaged or was "
                f"altered; rebuild the engine (or register the version again), then ask for a retry"
            )
        await asyncio.to_thread(_settle, part, final)

    async def _receive(self, blob: EngineRef | FileEntry, part: Path, resume: bool) -> str:
        digest = hashlib.sha256()
        start = 0
        if resume:
            start = await asyncio.to_thread(_feed, digest, part)
        if start == blob.size:
            return f"sha256-{digest.hexdigest()}"
        async with await self._open(blob.digest, start) as response:
            if response.status_code != httpx.codes.PARTIAL_CONTENT:
                digest, start = hashlib.sha256(), 0
            elif not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
                raise FetchError(
                    f"asked for bytes from {start}, got {response.headers.get('content-range')!r}"
                )
            with part.open("r+b" if start else "wb") as file:
                file.truncate(start)
                file.seek(start)
                async for chunk in response.aiter_raw(CHUNK):
                    start += len(chunk)
                    if start > blob.size:
                        break
                    await asyncio.to_thread(_take, digest, file.write, chunk)
                    self.downloads[blob.digest] = Download(progress=start / blob.size)
        if start < blob.size:
            raise FetchError(f"the connection ended after {start} of {blob.size} bytes")
        return f"sha256-{digest.hexdigest()}"

    async def _open(self, digest: str, start: int) -> "_Response":
        """Ask the registry, follow its redirect. The token is for the registry only: a presigned URL
        needs none, and another host must not see it."""
        ranged = {"range": f"bytes={start}-"} if start else {}
        authorised = {"authorization": f"Bearer {self._token}", **ranged}
        response = await self._send(f"{self._url}/v1/blobs/{digest}", authorised)
        if response.status_code in REDIRECTS:
            await response.aclose()
            target = response.url.join(response.headers["location"])
            response = await self._send(str(target), ranged)
        if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            body = (await response.aread())[:200].decode(errors="replace")
            await response.aclose()
            raise FetchError(f"{response.url.host} answered {response.status_code}: {body}")
        return _Response(response)

    async def _send(self, url: str, headers: dict[str, str]) -> httpx.Response:
        request = self._http.build_request("GET", url, headers={"accept-encoding": "identity", **headers})
        return await self._http.send(request, stream=True)


class _Response:
    """Closes the response on leaving."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aenter__(self) -> httpx.Response:
        return self._response

    async def __aexit__(self, *_: object) -> None:
        await self._response.aclose()


def file_digest(path: Path) -> str:
    """`sha256-<hex>` of a file. Blocks; raises OSError."""
    with path.open("rb") as file:
        return f"sha256-{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _feed(digest: "hashlib._Hash", part: Path) -> int:
    with part.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
        return file.tell()


def _take(digest: "hashlib._Hash", write: Callable[[bytes], int], chunk: bytes) -> None:
    digest.update(chunk)
    write(chunk)


def _settle(part: Path, final: Path) -> None:
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.replace(final)
    sync_folder(final.parent)
