"""A database that takes connections and answers nothing: every route is refused within 3 s."""

import asyncio
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from slipway.stack import Stack
from tests.chaos.forwarder import Forwarder, Mode
from tests.chaos.server import ADMIN, Server
from tests.chaos.test_dependencies_away import LIMIT_S

VERSIONS = "/v1/models/zoo/versions"
ROUTES = (
    ("GET", "/v1/versions", None),
    ("GET", "/v1/models", None),
    ("GET", VERSIONS, None),
    ("POST", "/v1/models", {"name": "other"}),
    ("POST", VERSIONS, {"framework": "onnx"}),
    ("GET", "/v1/deployments", None),
    ("GET", "/v1/nodes", None),
    ("GET", "/v1/audit", None),
    ("GET", "/v1/events", None),
    ("GET", "/v1/lineage?of=version:zoo@1", None),
    ("GET", "/v1/whoami", None),
    ("GET", "/api/2.0/mlflow/registered-models/search", None),
    ("GET", "/v1/nodes/nobody/assignment", None),
    ("POST", "/v1/nodes/nobody/reports", {"incarnation": "i", "seq": 1}),
)


@pytest.fixture
def cable(own: Stack, serve: Callable[..., Server]) -> Iterator[tuple[Forwarder, Server]]:
    """A registry process, and what lies between it and its database."""
    url = own.addresses.database_url
    port = urlsplit(url).port or 0
    with Forwarder(port) as cable:
        server = serve(DATABASE_URL=url.replace(f":{port}/", f":{cable.port}/"))
        yield cable, server
        cable.set(Mode.PASS)
        server.stop()


async def _asked(http: httpx.AsyncClient, method: str, path: str, body: object) -> httpx.Response:
    began = time.monotonic()
    answer = await http.request(method, path, json=body)
    assert time.monotonic() - began < LIMIT_S, f"{method} {path} took {time.monotonic() - began:.1f} s"
    return answer


async def test_every_route_is_refused_soon_and_works_again(cable: tuple[Forwarder, Server]) -> None:
    silent, server = cable
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        assert (await http.post("/v1/models", json={"name": "zoo"})).status_code == 201
        before = [await _asked(http, *route) for route in ROUTES if route[0] == "GET"]
        assert all(answer.status_code < 500 for answer in before)
        silent.set(Mode.SILENT)
        for _ in range(2):
            # The first ones wait for an answer; those that come later are refused at once.
            answers = await asyncio.gather(*(_asked(http, *route) for route in ROUTES * 2))
            for answer in answers:
                assert answer.status_code == 503, (answer.request.url, answer.text)
                assert int(answer.headers["retry-after"]) >= 1
                # MLflow's clients are told in their own form.
                assert answer.json().get("hint") or answer.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
        silent.set(Mode.PASS)
        async with asyncio.timeout(60):
            while (await http.get("/v1/models")).status_code != 200:
                await asyncio.sleep(0.2)
        after = [await _asked(http, *route) for route in ROUTES if route[0] == "GET"]
        assert [answer.status_code for answer in after] == [answer.status_code for answer in before]


async def test_a_statement_that_takes_long_is_left_alone(cable: tuple[Forwarder, Server], own: Stack) -> None:
    """The database answers others meanwhile."""
    _, server = cable
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with (
        httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http,
        await psycopg.AsyncConnection.connect(own.addresses.database_url) as other,
    ):
        assert (await http.post("/v1/models", json={"name": "held"})).status_code == 201
        await other.execute("SELECT * FROM models WHERE name = 'held' FOR UPDATE")
        held = asyncio.create_task(
            http.patch("/v1/models/held", json={"description": "late"}, headers={"if-match": '"1"'})
        )
        await asyncio.sleep(5)
        assert not held.done()
        await other.rollback()
        assert (await held).status_code == 200
