"""A broker or an object store that is down or silent fails only what needs it, and soon."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from slipway.stack import Stack
from tests import patience
from tests.chaos.forwarder import Forwarder, Mode
from tests.chaos.server import ADMIN, Server
from tests.registry.support import digest_of

# Refusals are there within 3 s; the rest is for a busy machine.
LIMIT_S = 3 + 5


@dataclass
class Cables:
    """A registry process, and what lies between it and its dependencies."""

    store: Forwarder
    broker: Forwarder
    server: Server


@pytest.fixture
def cables(own: Stack, serve: Callable[..., Server]) -> Iterator[Cables]:
    """Started while the store is away: that must not keep it from starting."""
    at = own.addresses
    ports = [urlsplit(url).port or 0 for url in (at.s3_endpoint_url, at.redis_url)]
    with Forwarder(ports[0]) as store, Forwarder(ports[1]) as broker:
        store.set(Mode.REFUSE)
        server = serve(
            S3_ENDPOINT_URL=store.url,
            REDIS_URL=at.redis_url.replace(f":{ports[1]}", f":{broker.port}"),
            SLIPWAY_S3_BUCKET="made-later",
        )
        yield Cables(store, broker, server)
        server.stop()


async def _timed(http: httpx.AsyncClient, method: str, path: str, body: object = None) -> httpx.Response:
    began = time.monotonic()
    answer = await http.request(method, path, json=body)
    assert time.monotonic() - began < LIMIT_S, f"{method} {path}"
    return answer


def _upload(content: bytes) -> dict[str, object]:
    return {"digest": digest_of(content), "size": len(content)}


async def _is_told(http: httpx.AsyncClient, *away: str) -> None:
    """The page comes to name exactly what is away, and that the registry can do most of its work."""
    async with asyncio.timeout(60):
        while True:
            answer = await _timed(http, "GET", "/readyz")
            assert answer.status_code == 200
            found = answer.json()["dependencies"]
            if [name for name, state in found.items() if state != "ok"] == list(away):
                return
            await asyncio.sleep(0.3)


async def _works_again(http: httpx.AsyncClient, content: bytes) -> httpx.Response:
    async with asyncio.timeout(60):
        while True:
            answer = await http.post("/v1/uploads", json=_upload(content))
            if answer.status_code == 200:
                return answer
            await asyncio.sleep(0.2)


async def test_only_what_needs_it_fails(cables: Cables) -> None:
    headers = {"authorization": f"Bearer {ADMIN}"}
    url = cables.server.url
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
        for mode in (Mode.REFUSE, Mode.SILENT):
            cables.store.set(mode)
            many = await asyncio.gather(
                *(_timed(http, "POST", "/v1/uploads", _upload(f"{mode} {n}".encode())) for n in range(24)),
                _timed(http, "POST", "/v1/models", {"name": f"while-{mode.name.lower()}"}),
                *(_timed(http, "GET", "/v1/models") for _ in range(10)),
            )
            assert {answer.status_code for answer in many[:24]} == {503}
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in many[:24])
            assert [answer.status_code for answer in many[24:]] == [201] + [200] * 10
            await _is_told(http, "object store")
            cables.store.set(Mode.PASS)
            await _works_again(http, f"after {mode}".encode())
        await _is_told(http)
        await _without_broker(cables, http)


async def _without_broker(cables: Cables, http: httpx.AsyncClient) -> None:
    """Wake-ups are lost, nothing else: the sweep sends them again."""
    for mode in (Mode.REFUSE, Mode.SILENT):
        cables.broker.set(mode)
        content = f"ordered while {mode}".encode()
        upload = (await _timed(http, "POST", "/v1/uploads", _upload(content))).json()
        async with patience.async_client() as store:
            assert (await store.put(upload["parts"][0]["url"], content=content)).status_code == 200
        done = await _timed(http, "POST", f"/v1/uploads/{upload['id']}/complete", {})
        assert (done.status_code, done.json()["phase"]) == (200, "verifying")
        await _is_told(http, "broker")
    cables.broker.set(Mode.PASS)
    await _is_told(http)
