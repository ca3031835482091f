"""A search in one statement answers what the ordinary endpoint answers, refusals included."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from registry.app import resources_of
from registry.client import access, models, versions
from registry.contract.tokens import Role, TokenCreate
from registry.contract.versions import DatasetRef, Lineage, StageChange
from registry.models.quick_search import QuickSearches
from tests import patience
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import contract, declared, make_dataset, ready_version, run_sql

ELSEWHERE = "elsewhere"


@pytest.fixture
async def quick(registry: Registry) -> AsyncIterator[httpx.AsyncClient]:
    """The quick searches alone: what they leave to the ordinary endpoint is answered by a word."""
    app = FastAPI()
    app.state.resources = resources_of(registry.settings)
    made = QuickSearches(app, PlainTextResponse(ELSEWHERE))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(made), base_url="http://quick", headers=_bearer(ADMIN)
    ) as client:
        yield client
    await app.state.resources.database.close()


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def _zoo(registry: Registry) -> None:
    """ants@1 is quarantined and has an alias, ants@2 a draft with all that one can say, bees@1 ready."""
    await make_dataset(registry, "valset")
    await ready_version(registry, "ants")
    await ready_version(registry, "bees", lineage=Lineage(commit="4f1e2d", parameters={"lr": "0.1"}))
    data = DatasetRef(name="valset", version=1)
    files = {"b.onnx": b"b", "a/golden.jsonl": b"{}"}
    body = declared(files, contract(golden="a/golden.jsonl")).model_copy(
        update={
            "tags": {"z": "ünï \"'", "a": ""},
            "lineage": Lineage(training_data=data, parent_version=1),
            "description": "line\nline",
        }
    )
    await registry.client(versions.create("ants", body))
    await registry.client(models.set_alias("ants", "champion", 1))
    await registry.client(versions.quarantine("ants", 1, StageChange(reason="leaks")))
    await run_sql(registry, "UPDATE versions SET created_at = '2026-01-31T12:00:00Z' WHERE number = 2")


async def test_a_page_is_byte_for_byte_what_get_says(registry: Registry, quick: httpx.AsyncClient) -> None:
    await _zoo(registry)
    async with patience.async_client(base_url=registry.url, headers=_bearer(ADMIN)) as http:
        one_by_one = [
            (await http.get(f"/v1/models/{model}/versions/{number}")).content
            for model, number in (("ants", 1), ("ants", 2), ("bees", 1))
        ]
        page = await http.get("/v1/versions", params={"order_by": "name"})
    whole = b'{"items":[' + b",".join(one_by_one) + b'],"next_page_token":null}'
    assert page.content == whole
    assert page.headers["content-type"] == "application/json"
    found = await quick.get("/v1/versions", params={"order_by": "name"})
    assert (found.content, found.headers["content-type"]) == (whole, "application/json")
    limited = TokenCreate(name="ci", roles=(Role.VIEWER,), models=("ants", "bees"))
    secret = (await registry.client(access.create_token(limited))).secret
    async with patience.async_client(base_url=registry.url, headers=_bearer(secret)) as http:
        assert (await http.get("/v1/versions", params={"order_by": "name"})).content == whole


async def test_pages_go_on_where_the_other_endpoint_ended(
    registry: Registry, quick: httpx.AsyncClient
) -> None:
    await _zoo(registry)
    for order_by, numbers in (("name", [1, 2, 1]), ("created_at desc", [1, 1, 2])):
        query = {"order_by": order_by, "limit": "1"}
        seen: list[int] = []
        async with patience.async_client(base_url=registry.url, headers=_bearer(ADMIN)) as http:
            while True:
                page = await quick.get("/v1/versions", params=query)
                assert page.content == (await http.get("/v1/versions", params=query)).content
                seen += [item["number"] for item in page.json()["items"]]
                if page.json()["next_page_token"] is None:
                    break
                query["page_token"] = page.json()["next_page_token"]
        assert seen == numbers
    nothing = await quick.get("/v1/versions", params={"filter": "name=wasps"})
    assert nothing.content == b'{"items":[],"next_page_token":null}'


async def test_what_is_not_plain_is_left_to_the_ordinary_endpoint(
    registry: Registry, quick: httpx.AsyncClient
) -> None:
    await _zoo(registry)

    async def secret(role: Role, **limits: tuple[str, ...]) -> str:
        body = TokenCreate(name="t", roles=(role,), **limits)
        made = (await registry.client(access.create_token(body))).secret
        await run_sql(registry, "UPDATE tokens SET last_used_at = now()")
        return made

    async def left(query: str, token: str = ADMIN) -> bool:
        return (await quick.get(f"/v1/versions?{query}", headers=_bearer(token))).text == ELSEWHERE

    viewer = await secret(Role.VIEWER)
    for plain in ("", "limit=1000", "filter=", "filter=stage%3Dready&order_by=name", "page_token="):
        assert await left(plain) == (plain == "page_token="), plain
        assert await left(plain, viewer) == (plain == "page_token="), plain
    for odd in (
        "limit=0",
        "limit=1001",
        "limit=٣",
        "limit=1&limit=2",
        "x=1",
        "filter=nonsense",
        "order_by=size",
    ):
        assert await left(odd), odd
    assert await left("filter=" + "a" * 2049)
    assert await left("", "slp_nobody")
    await run_sql(registry, """UPDATE tokens SET roles = '["node"]' WHERE name = 't'""")
    assert await left("", viewer), "a node reads no versions"
    await run_sql(registry, """UPDATE tokens SET roles = '["viewer"]' WHERE name = 't'""")
    assert await left("", await secret(Role.VIEWER, models=("ants",)))
    assert await left("", await secret(Role.VIEWER, environments=("prod",)))
    await run_sql(registry, "UPDATE tokens SET expires_at = now() ")
    assert await left("", viewer)
    await run_sql(
        registry, "UPDATE tokens SET expires_at = NULL, last_used_at = now() - interval '2 minutes'"
    )
    assert await left("", viewer), "that it is used now is noted by the ordinary endpoint"
    await run_sql(registry, "UPDATE tokens SET last_used_at = now()")
    assert not await left("", viewer)
    await run_sql(registry, "UPDATE tokens SET revoked_at = now()")
    assert await left("", viewer), "nothing about a token is remembered"
