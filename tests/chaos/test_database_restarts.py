"""PostgreSQL goes away and comes back: requests meanwhile are refused soon, and nothing needs a restart."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from slipway.stack import Stack
from tests.chaos.server import ADMIN, Server

# Refusals are there within 3 s; the rest is for a busy machine.
MARGIN_S = 5


@dataclass
class Traffic:
    """Reads and writes without retries; every answer with how long it took."""

    answers: list[tuple[httpx.Response, float]] = field(default_factory=list)

    async def run(self, url: str) -> None:
        headers = {"authorization": f"Bearer {ADMIN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
            at = 0
            while True:
                for method, path, body in (
                    ("GET", "/v1/models", None),
                    ("POST", "/v1/models", {"name": f"m{id(self)}-{at}"}),
                    ("GET", "/v1/nodes/nobody/assignment", None),
                ):
                    began = time.monotonic()
                    answer = await http.request(method, path, json=body)
                    self.answers.append((answer, time.monotonic() - began))
                at += 1
                await asyncio.sleep(0.05)


async def _until_ready(url: str) -> dict[str, str]:
    """Waits for both the database and the notices, at most 30 s."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http, asyncio.timeout(60):
        while True:
            answer = await http.get(f"{url}/readyz")
            found: dict[str, str] = answer.json()["dependencies"]
            if answer.status_code == 200 and found["notices"] == "ok":
                return found
            await asyncio.sleep(0.2)


async def test_a_restart_is_ridden_out(own: Stack, serve: Callable[..., Server]) -> None:
    one, other = serve(), serve()
    traffic = Traffic()
    task = asyncio.create_task(traffic.run(one.url))
    await asyncio.sleep(0.5)
    own.kill("postgres")
    await asyncio.sleep(1.5)
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        away = await http.get(f"{one.url}/readyz")
        alive = await http.get(f"{one.url}/healthz")
        measured = await http.get(f"{one.url}/metrics")
    await asyncio.to_thread(own.restart, "postgres")
    assert await _until_ready(one.url) == await _until_ready(other.url)
    seen = len(traffic.answers)
    async with asyncio.timeout(60):
        while len(traffic.answers) < seen + 9:
            assert not task.done(), task.exception()
            await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert away.status_code == 503
    assert away.json()["dependencies"]["database"] != "ok"
    assert alive.status_code == 200
    assert "slipway_database_up 0" in measured.text
    refused = [answer for answer, _ in traffic.answers if answer.status_code >= 500]
    assert refused, "the restart was noticed"
    for answer in refused:
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["type"] == "/problems/unavailable"
        assert answer.json()["hint"]
    assert max(seconds for _, seconds in traffic.answers) < 3 + MARGIN_S
    after = [answer.status_code for answer, _ in traffic.answers[-9:]]
    assert set(after) <= {200, 201, 404}, "everything works again"
    await _notices_cross(one, other)


async def _notices_cross(one: Server, other: Server) -> None:
    """What one process changes wakes who waits at the other."""
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=40) as http:
        invited = await http.post(f"{one.url}/v1/enrolments", json={"environment": "prod"})
        secret = {"authorization": f"Bearer {invited.json()['secret']}"}
        body = {
            "name": "n1",
            "targets": ["ort.cpu"],
            "hardware": {"cores": 1, "memory_bytes": 1},
            "address": "n1:1",
        }
        node = (await http.post(f"{one.url}/v1/nodes", json=body, headers=secret)).json()
        own = {"authorization": f"Bearer {node['token']}"}
        path = f"/v1/nodes/{node['node']}/assignment"
        seen = (await http.get(one.url + path, headers=own)).headers["etag"]
        waiting = asyncio.create_task(
            http.get(one.url + path, params={"wait": 25}, headers={**own, "if-none-match": seen})
        )
        await asyncio.sleep(0.3)
        await http.post(f"{other.url}/v1/nodes/{node['node']}/drain", json={})
        answer = await asyncio.wait_for(waiting, 15)
    assert answer.status_code == 200
    assert answer.json()["draining"] is True
