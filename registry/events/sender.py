"""One attempt of a delivery over HTTP: signed, bounded in time, no redirect, nothing of the answer read.

The name is looked up here and the address that was judged is the one that is connected to: a name that
changes its address between the look-up and the connection gains nothing.
"""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from registry.events.addresses import Address, Networks, Refused, check, literal
from registry.events.signing import signatures

GONE = 410
LOOK_UPS = 8
LONGEST_ERROR = 300


@dataclass(frozen=True)
class Target:
    """`secrets`: each of them signs; left out of the representation."""

    url: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


@dataclass(frozen=True)
class Outcome:
    """`status` None: no answer came."""

    status: int | None
    error: str
    took_ms: float

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        """The receiver asks for nothing more."""
        return self.status == GONE


class Sender:
    """One per process. Connections are not kept: they are bound to an address, not to a name."""

    def __init__(self, timeout_s: float, networks: Networks) -> None:
        self._timeout_s = timeout_s
        self._networks = networks
        # Of its own: a name server that hangs must not take the threads of everything else.
        self._look_ups = ThreadPoolExecutor(LOOK_UPS, "webhook-names")
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def send(self, target: Target, message_id: str, body: bytes) -> Outcome:
        """Never raises for what the receiver or the network does."""
        began = time.monotonic()
        status, error = None, ""
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(target, message_id, body)
        except TimeoutError:
            error = f"no answer within {self._timeout_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, Refused, ValueError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        if status is not None and not 200 <= status < 300:
            error = f"the receiver answered {status}"
            if 300 <= status < 400:
                error += ", and redirects are not followed"
        return Outcome(status, error[:LONGEST_ERROR], (time.monotonic() - began) * 1000)

    async def _post(self, target: Target, message_id: str, body: bytes) -> int:
        parts = urlsplit(target.url)
        host = parts.hostname or ""
        address = literal(parts) or await self._look_up(host, parts.port or _port(parts.scheme))
        check(address, self._networks)
        timestamp = int(time.time())
        headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "user-agent": "slipway-webhooks/1",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(target.secrets, message_id, timestamp, body),
        }
        url = httpx.URL(target.url).copy_with(host=str(address))
        extensions = {"sni_hostname": host} if parts.scheme == "https" else {}
        request = self._http.build_request("POST", url, headers=headers, content=body, extensions=extensions)
        response = await self._http.send(request, stream=True)
        # The status says it all; the rest may be endless.
        await response.aclose()
        return response.status_code

    async def _look_up(self, host: str, port: int) -> Address:
        """The first address, once all of them are found to be allowed. Raises OSError, Refused."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._look_ups, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = [ip_address(entry[4][0]) for entry in found]
        for address in addresses:
            check(address, self._networks)
        return addresses[0]

    async def close(self) -> None:
        self._look_ups.shutdown(wait=False, cancel_futures=True)
        await self._http.aclose()


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
