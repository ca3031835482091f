"""Creating a version in one statement is what creating it in the ordinary way is, refusals included."""

import asyncio
from typing import Any

import httpx
import psycopg

from registry.client import access, models, versions
from registry.client.errors import ApiError
from registry.contract.tokens import Role, TokenCreate
from registry.contract.versions import Lineage, Version
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import declared, make_dataset, make_model, run_sql

AT = "/v1/models/animals/versions"


def _http(registry: Registry, token: str = ADMIN) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return httpx.AsyncClient(base_url=registry.url, headers=headers, trust_env=False, timeout=30)


async def _in_one_statement(registry: Registry, key: str) -> bool:
    """Answers of the ordinary way are kept sealed."""
    rows = await run_sql(registry, "SELECT sealed IS NULL FROM idempotency_keys WHERE key = %s", key)
    return rows == [(True,)]


async def test_it_answers_what_get_answers_and_keeps_the_answer(registry: Registry) -> None:
    await make_model(registry)
    body = declared().model_copy(update={"tags": {"team": "ünï"}, "lineage": Lineage(commit="4f1e")})
    content, headers = body.model_dump_json(), {"idempotency-key": "once", "x-slipway-via": "CLI"}
    async with _http(registry) as http:
        first = await http.post(AT, content=content, headers=headers)
        again = await http.post(AT, content=content, headers=headers)
        got = await http.get(f"{AT}/1")
        other = await http.post(AT, content=declared().model_dump_json(), headers=headers)
    assert await _in_one_statement(registry, "once")
    assert first.status_code == 201
    assert Version.model_validate_json(first.content) == Version.model_validate_json(got.content)
    assert first.headers["etag"] == got.headers["etag"]
    assert first.headers["location"] == f"{AT}/1"
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replay"] == "true"
    assert (again.headers["etag"], again.headers["location"]) == (first.headers["etag"], f"{AT}/1")
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-mismatch")
    ((actor, via, request_id, after),) = await run_sql(
        registry,
        "SELECT actor, via, request_id, after FROM audit WHERE action = 'version.create' AND subject = %s",
        "version:animals@1",
    )
    assert (actor, via, request_id) == ("admin", "CLI", first.headers["x-request-id"])
    assert Version.model_validate(after) == Version.model_validate_json(got.content)
    assert (await registry.client(models.get("animals"))).latest_version == 1


async def test_one_key_makes_one_version_however_often_it_comes_at_once(registry: Registry) -> None:
    await make_model(registry)
    content = declared().model_dump_json()
    async with _http(registry) as http:
        await http.get("/v1/whoami")
        answers = await asyncio.gather(
            *(http.post(AT, content=content, headers={"idempotency-key": "same"}) for _ in range(12))
        )
        made = await http.post(AT, content=content)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert made.json()["number"] == 2


async def _refusal(registry: Registry, token: str, at: str, content: str) -> tuple[int, str, str]:
    async with _http(registry, token) as http:
        answer = await http.post(at, content=content)
    problem: dict[str, Any] = answer.json()
    assert problem["hint"] and problem["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, problem["type"].rpartition("/")[2], problem["detail"]


async def test_refusals_are_those_of_every_other_route(registry: Registry) -> None:
    await make_model(registry)
    body = declared()
    fine = body.model_dump_json()

    async def token(role: Role, **scope: Any) -> str:
        made = await registry.client(access.create_token(TokenCreate(name=role, roles=(role,), **scope)))
        async with _http(registry, made.secret) as http:
            await http.get("/v1/whoami")
        return made.secret

    viewer, ants = await token(Role.VIEWER), await token(Role.PUBLISHER, models=("ants",))
    wrong = body.model_copy(update={"files": (*body.files, *body.files)}).model_dump_json()
    zero = fine.replace('"description":""', '"description":"\\u0000"')
    unknown = body.model_copy(update={"lineage": Lineage(parent_version=7)}).model_dump_json()
    refused = [
        (await _refusal(registry, "unknown", AT, fine))[:2],
        (await _refusal(registry, viewer, AT, fine))[:2],
        (await _refusal(registry, ants, AT, fine))[:2],
        (await _refusal(registry, ADMIN, "/v1/models/nobody/versions", fine))[:2],
        (await _refusal(registry, ADMIN, AT, wrong))[:2],
        (await _refusal(registry, ADMIN, AT, unknown))[:2],
        (await _refusal(registry, ADMIN, AT, "{"))[:2],
        (await _refusal(registry, ADMIN, AT, zero))[:2],
    ]
    assert refused == [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (404, "not-found"),
        (404, "not-found"),
        (422, "invalid"),
        (404, "not-found"),
        (422, "invalid"),
        (422, "invalid"),
    ]
    assert await run_sql(registry, "SELECT last_number FROM models") == [(0,)]


async def test_a_revoked_token_makes_nothing_more(registry: Registry) -> None:
    await make_model(registry)
    made = await registry.client(access.create_token(TokenCreate(name="ci", roles=(Role.PUBLISHER,))))
    client = registry.with_token(made.secret)
    assert [(await client(versions.create("animals", declared()))).number for _ in range(3)] == [1, 2, 3]
    await registry.client(access.revoke_token(made.token.id))
    try:
        await client(versions.create("animals", declared()))
    except ApiError as error:
        assert error.status == 401 and "revoked" in error.problem.detail
    else:
        raise AssertionError("a revoked token made a version")


async def test_lineage_that_refers_to_rows_is_checked(registry: Registry) -> None:
    await make_model(registry)
    dataset = await make_dataset(registry, "pets")
    first = await registry.client(versions.create("animals", declared()))
    lineage = Lineage.model_validate(
        {"training_data": {"name": "pets", "version": dataset.version}, "parent_version": first.number}
    )
    second = await registry.client(
        versions.create("animals", declared().model_copy(update={"lineage": lineage}))
    )
    assert (second.number, second.lineage) == (2, lineage)


async def test_requests_are_counted_under_their_template(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(versions.create("animals", declared()))
    await registry.client(versions.create("animals", declared()))
    async with _http(registry) as http:
        page = (await http.get("/metrics")).text
    counted = 'slipway_requests_total{method="POST",route="/v1/models/{model}/versions",status="201"} 2'
    assert counted in page.splitlines()


async def test_connections_that_the_server_closed_are_noticed(registry: Registry) -> None:
    """By both kinds of use; nobody gets an error for them."""
    await make_model(registry)
    url = registry.settings.database_url.get_secret_value()
    for _ in range(2):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'"
            )
        await asyncio.sleep(0.2)
        async with _http(registry) as http:
            answers = await asyncio.gather(
                *(http.post(AT, content=declared().model_dump_json()) for _ in range(4)),
                *(http.get("/v1/versions") for _ in range(4)),
            )
        assert [answer.status_code for answer in answers] == [201] * 4 + [200] * 4
