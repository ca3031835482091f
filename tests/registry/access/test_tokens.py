"""Tokens: shown once, expiring on the database's clock, revocable; and who one is."""

import pytest

from registry.client import ApiError, access
from registry.contract.tokens import Role, TokenCreate
from tests import patience
from tests.registry.conftest import Registry
from tests.registry.support import run_sql


async def test_a_secret_is_shown_once(registry: Registry) -> None:
    body = TokenCreate(name="ci", roles=(Role.PUBLISHER,), models=("animals",), environments=("prod",))
    made = await registry.client(access.create_token(body))
    assert made.secret.startswith("slp_")
    assert len(made.secret) == len("slp_") + 43
    listed = {token.id: token for token in (await registry.client(access.tokens())).items}
    assert listed[made.token.id] == made.token
    stored = await run_sql(registry, "SELECT tokens::text FROM tokens UNION SELECT audit::text FROM audit")
    assert not any(made.secret in row[0] for row in stored)
    me = await registry.with_token(made.secret)(access.whoami())
    assert (me.name, me.roles, me.models, me.environments) == ("ci", ("publisher",), ("animals",), ("prod",))
    assert me.registry_id == (await registry.client(access.whoami())).registry_id


async def test_an_expired_token_is_refused(registry: Registry) -> None:
    body = TokenCreate(name="brief", roles=(Role.VIEWER,), expires_in_s=3600)
    made = await registry.client(access.create_token(body))
    brief = registry.with_token(made.secret)
    assert (await brief(access.whoami())).name == "brief"
    await run_sql(registry, "UPDATE tokens SET expires_at = now() WHERE name = 'brief'")
    with pytest.raises(ApiError, match="the token brief expired at") as refused:
        await brief(access.whoami())
    assert refused.value.status == 401
    assert refused.value.problem.hint


async def test_a_revoked_token_is_refused(registry: Registry) -> None:
    made = await registry.client(access.create_token(TokenCreate(name="ex", roles=(Role.VIEWER,))))
    revoked = await registry.client(access.revoke_token(made.token.id))
    assert revoked.revoked_at is not None
    assert await registry.client(access.revoke_token(made.token.id)) == revoked
    with pytest.raises(ApiError, match="the token ex was revoked") as refused:
        await registry.with_token(made.secret)(access.whoami())
    assert refused.value.status == 401
    with pytest.raises(ApiError, match="there is no token tok_none"):
        await registry.client(access.revoke_token("tok_none"))


async def test_without_a_token_one_is_asked_for_it(registry: Registry) -> None:
    async with patience.async_client(base_url=registry.url) as http:
        answer = await http.get("/v1/models")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    with pytest.raises(ApiError, match="the token is not known here"):
        await registry.with_token("slp_guess")(access.whoami())


async def test_tokens_are_made_by_admins_alone(registry: Registry) -> None:
    publisher = await registry.as_role(Role.PUBLISHER)
    with pytest.raises(ApiError, match="this needs admin") as refused:
        await publisher(access.create_token(TokenCreate(name="mine", roles=(Role.ADMIN,))))
    assert refused.value.status == 403
