"""One answer per key, and nothing in the database that could be used by who reads it."""

from registry.client import access
from registry.contract.tokens import Role, TokenCreate
from tests import patience
from tests.registry.conftest import Registry
from tests.registry.support import digest_of, run_sql

UPLOAD = {"digest": digest_of(b"x" * 10), "size": 10}


async def test_presigned_urls_are_kept_for_the_caller_alone(registry: Registry) -> None:
    made = await registry.client(access.create_token(TokenCreate(name="ana", roles=(Role.PUBLISHER,))))
    headers = {"authorization": f"Bearer {made.secret}", "idempotency-key": "once"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        first = await http.post("/v1/uploads", json=UPLOAD)
        again = await http.post("/v1/uploads", json=UPLOAD)
        other = await http.post("/v1/uploads", json={**UPLOAD, "size": 11})
    url = first.json()["parts"][0]["url"]
    assert "X-Amz-Signature=" in url
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotent-replay"] == "true"
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-mismatch")
    everything = await run_sql(
        registry,
        "SELECT coalesce(convert_from(body, 'utf8'), '') || encode(sealed, 'escape') || headers::text "
        "FROM idempotency_keys UNION ALL SELECT audit::text FROM audit UNION ALL SELECT uploads::text "
        "FROM uploads",
    )
    assert everything
    for row in everything:
        assert "X-Amz-Signature" not in row[0] and made.secret not in row[0]


async def test_an_earlier_version_of_the_registry_is_told_to_try_again(registry: Registry) -> None:
    """It reads `status` and `body`, and knows nothing of `sealed`."""
    headers = {"authorization": "Bearer test-admin-token", "idempotency-key": "once"}
    async with patience.async_client(base_url=registry.url, headers=headers) as http:
        (await http.post("/v1/models", json={"name": "ants"})).raise_for_status()
        assert await run_sql(registry, "SELECT status, body FROM idempotency_keys") == [(503, b"")]
        # And a row that such a process wrote is still an answer.
        await run_sql(
            registry, "UPDATE idempotency_keys SET sealed = NULL, status = 201, body = '{\"old\": true}'"
        )
        old = await http.post("/v1/models", json={"name": "ants"})
    assert (old.status_code, old.json()) == (201, {"old": True})


async def test_without_a_token_there_is_no_key(registry: Registry) -> None:
    """Nobody gets the answer of somebody else who had none either."""
    async with patience.async_client(base_url=registry.url) as http:
        for _ in range(2):
            refused = await http.post(
                "/v1/nodes",
                json={"name": "n", "targets": ["ort.cpu"], "hardware": {"cores": 1, "memory_bytes": 1}}
                | {"address": "n:1"},
                headers={"idempotency-key": "once"},
            )
            assert refused.status_code == 401
    assert await run_sql(registry, "SELECT count(*) FROM idempotency_keys WHERE principal = ''") == [(0,)]
