"""Does the work of a leased verification: reads an upload back from the object store and hashes it."""

import hashlib
import logging
import ssl
from functools import cache

import httpx

from builder.held import Held, LeaseLost
from registry.client import tasks
from registry.contract.tasks import VerifyOrder, VerifyResult

CHUNK = 1 << 20
ATTEMPTS = 8
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
_TIMEOUT = httpx.Timeout(60, connect=5)

logger = logging.getLogger(__name__)


def run_verify(held: Held, order: VerifyOrder) -> None:
    """Ends with the verification reported, or with LeaseLost. Memory is constant in the upload's size.

    Raises httpx.HTTPError when the bytes can't be had: another attempt gets a fresh URL.
    """
    pause = FIRST_PAUSE_S
    for _ in range(ATTEMPTS - 1):
        try:
            found = _read(held, order)
            break
        except httpx.TransportError as error:
            logger.warning("upload %s can't be read now: %s", order.upload, error or type(error).__name__)
            if held.lost.wait(pause):
                raise LeaseLost(held.why) from error
            pause = min(LONGEST_PAUSE_S, pause * 2)
    else:
        found = _read(held, order)
    held.send(tasks.finish_verify(held.lease.task, found))


@cache
def _tls() -> ssl.SSLContext:
    """Made once a process: reading the authorities' certificates takes longer than reading a small file."""
    return httpx.create_ssl_context(trust_env=False)


def _read(held: Held, order: VerifyOrder) -> VerifyResult:
    """The registry's token is never sent to the object store."""
    hasher = hashlib.sha256()
    size = 0
    with (
        httpx.Client(timeout=_TIMEOUT, verify=_tls(), trust_env=False) as store,
        store.stream("GET", order.url, headers={"accept-encoding": "identity"}) as answer,
    ):
        answer.raise_for_status()
        for chunk in answer.iter_raw(CHUNK):
            if held.lost.is_set():
                raise LeaseLost(held.why)
            hasher.update(chunk)
            size += len(chunk)
        etag = answer.headers.get("etag", "")
    return VerifyResult(fence=held.fence, digest=f"sha256-{hasher.hexdigest()}", size=size, etag=etag)
