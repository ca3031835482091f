"""Whatever is sent: a 4xx problem that says how to mend it, and nothing is done."""

import asyncio
from urllib.parse import quote

import httpx
import pytest

from tests import patience
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import run_sql

INJECTIONS = (
    "'; DROP TABLE audit; --",
    '" OR 1=1 --',
    "x' UNION SELECT hash FROM tokens --",
    "%' OR '1'='1",
    "$$; DELETE FROM tokens; $$",
    "\\",
    "\x00",
    "\U0001f600" * 3,
    "ａｎｔｓ",
    "a\u202eb",
    "ants\n",
    "../../etc/passwd",
    "a" * 5000,
)
FILTERS = (
    ("/v1/audit", "subject"),
    ("/v1/audit", "actor"),
    ("/v1/audit", "action"),
    ("/v1/audit", "since"),
    ("/v1/models", "search"),
    ("/v1/versions", "filter"),
    ("/v1/deployments", "environment"),
    ("/v1/nodes", "environment"),
    ("/v1/builds", "version"),
    ("/v1/tokens", "page_token"),
)


def is_problem(answer: httpx.Response) -> bool:
    return answer.headers["content-type"] == "application/problem+json" and bool(answer.json()["hint"])


@pytest.fixture
def headers() -> dict[str, str]:
    return {"authorization": f"Bearer {ADMIN}"}


async def test_names_are_data(registry: Registry, headers: dict[str, str]) -> None:
    counts = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM models)"
    before = await run_sql(registry, counts)
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        for text in INJECTIONS:
            encoded = quote(text, safe="")
            for path in (
                f"/v1/models/{encoded}",
                f"/v1/deployments/{encoded}/{encoded}",
                f"/v1/deployments/{encoded}/x/releases/1",
                f"/v1/nodes/{encoded}",
                f"/v1/builds/{encoded}",
                f"/v1/rollbacks/{encoded}",
                f"/v1/blobs/{encoded}",
                f"/v1/tasks/{encoded}",
            ):
                answer = await http.get(path)
                assert 400 <= answer.status_code < 500 and is_problem(answer), (path, answer.text)
            for path, name in FILTERS:
                answer = await http.get(path, params={name: text})
                assert answer.status_code < 500, (path, name, text, answer.text)
                assert answer.status_code == 200 or is_problem(answer)
            made = await http.post("/v1/models", json={"name": text, "description": "x"})
            assert made.status_code == 422 and is_problem(made), (text, made.text)
            made = await http.post(f"/v1/tokens/{encoded}/revoke", json={})
            assert made.status_code in (404, 405, 422) and is_problem(made), made.text
    assert await run_sql(registry, counts) == before


async def test_text_that_no_database_stores(registry: Registry, headers: dict[str, str]) -> None:
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        for body in (
            rb'{"name": "ants", "description": "\u0000"}',
            rb'{"name": "ants", "description": "\ud800"}',
            b'{"name": "ants", "description": "\xff"}',
            b'{"name": "ants", "tags": {"\\u0000": "x"}}',
            b'{"name": "ants"',
            b"[" * 100_000,
            b'{"name": "ants", "description": 1e999}',
            b"null",
        ):
            answer = await http.post("/v1/models", content=body, headers={"content-type": "application/json"})
            assert 400 <= answer.status_code < 500 and is_problem(answer), (body[:60], answer.text)
        for number in ("99999999999999999999", "-1", "1e3", "٣"):
            answer = await http.get(f"/v1/deployments/prod/x/releases/{number}")
            assert 400 <= answer.status_code < 500 and is_problem(answer), answer.text
    assert await run_sql(registry, "SELECT count(*) FROM models") == [(0,)]


async def test_headers_that_are_too_large_or_strange(registry: Registry, headers: dict[str, str]) -> None:
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        large = await http.get("/v1/whoami", headers={"x-large": "x" * 40_000})
        assert (large.status_code, large.json()["type"]) == (431, "/problems/too-large")
        assert is_problem(large) and large.headers["x-request-id"] == large.json()["request_id"]
        many = await http.get("/v1/whoami", headers={f"x-{n}": "x" * 100 for n in range(400)})
        assert many.status_code == 431
        for name, value in {
            "idempotency-key": "k" * 256,
            "if-match": "\xff" * 50,
            "authorization": "Bearer \xff\xfe",
            "x-request-id": "\xff" * 10,
            "x-slipway-via": "\xff" * 300,
        }.items():
            answer = await http.post(
                "/v1/models", json={"name": "-"}, headers={name: value.encode("latin-1")}
            )
            assert 400 <= answer.status_code < 500 and is_problem(answer), (name, answer.text)


async def test_a_secret_that_is_guessed_is_told_nothing(registry: Registry) -> None:
    """All refusals of unknown secrets are alike, however long the guess is."""
    async with patience.async_client(base_url=registry.url) as http:
        answers = await asyncio.gather(
            *(
                http.get("/v1/whoami", headers={"authorization": f"Bearer {guess}"})
                for guess in ("slp_", "' OR 1=1 --", ADMIN[:-1], ADMIN + "x", "x" * 10_000)
            )
        )
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.json()["detail"] for answer in answers}) == 1
