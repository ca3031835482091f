"""What sending and fetching share: errors, progress, patience, and a client of the object store."""

import threading
import time
from collections.abc import Callable

import httpx

from registry.client.tls import tls

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


class Meter:
    """Adds up bytes from several threads and tells them one at a time: done, and in all. It goes back by
    what has to be sent once more."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._total = total
        self._progress = progress

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress(self._done, self._total)


class Patience:
    """Waits between attempts, longer each time; it ends after ATTEMPTS in a row that moved nothing."""

    def __init__(self) -> None:
        self._in_vain = 0

    def pause(self, moved: bool) -> bool:
        """Waits after an attempt that did not finish. False: give up."""
        self._in_vain = 1 if moved else self._in_vain + 1
        if self._in_vain >= ATTEMPTS:
            return False
        time.sleep(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self._in_vain - 1)))
        return True


def store() -> httpx.Client:
    """A client of its own for the object store: without the registry's token and address."""
    return httpx.Client(timeout=_TIMEOUT, verify=tls(), trust_env=False)
