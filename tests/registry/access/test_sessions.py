"""Sessions: a revocable swap of a token, with its rights and never beyond its end."""

from datetime import UTC, datetime, timedelta

import pytest

from registry.client import ApiError, access
from registry.contract.tokens import Role, SessionCreate, TokenCreate
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import enrol
from tests.registry.support import run_sql


async def test_a_session_has_the_rights_of_its_token_and_ends(registry: Registry) -> None:
    body = TokenCreate(name="ana", roles=(Role.RELEASER,), environments=("prod",))
    token = await registry.client(access.create_token(body))
    made = await registry.with_token(token.secret)(access.create_session(SessionCreate(expires_in_s=600)))
    assert made.secret != token.secret
    assert made.token.id.startswith("ses_") and made.token.created_by == token.token.id
    assert made.token.expires_at is not None
    assert made.token.expires_at < datetime.now(UTC) + timedelta(seconds=700)
    session = registry.with_token(made.secret)
    me = await session(access.whoami())
    assert (me.name, me.roles, me.environments) == ("ana", ("releaser",), ("prod",))
    stored = await run_sql(
        registry,
        "SELECT tokens::text FROM tokens UNION ALL SELECT audit::text FROM audit "
        "UNION ALL SELECT convert_from(body, 'utf8') FROM idempotency_keys",
    )
    assert not any(made.secret in row[0] for row in stored), "the secret is kept nowhere"
    assert (await session(access.end_session())).revoked_at is not None
    with pytest.raises(ApiError, match="was revoked"):
        await session(access.whoami())
    assert (await registry.with_token(token.secret)(access.whoami())).name == "ana"


async def test_a_session_ends_with_its_token(registry: Registry) -> None:
    token = await registry.client(
        access.create_token(TokenCreate(name="brief", roles=(Role.VIEWER,), expires_in_s=60))
    )
    made = await registry.with_token(token.secret)(access.create_session(SessionCreate()))
    assert made.token.expires_at == token.token.expires_at
    await registry.client(access.revoke_token(token.token.id))
    with pytest.raises(ApiError, match="was revoked"):
        await registry.with_token(made.secret)(access.whoami())


async def test_only_a_persons_token_makes_sessions(registry: Registry) -> None:
    made = await registry.client(access.create_session(SessionCreate()))
    with pytest.raises(ApiError, match="a session makes no sessions"):
        await registry.with_token(made.secret)(access.create_session(SessionCreate()))
    node = await enrol(registry)
    with pytest.raises(ApiError, match="a node's token makes no sessions"):
        await registry.with_token(node.token)(access.create_session(SessionCreate()))
    with pytest.raises(ApiError, match="the caller uses a token, not a session"):
        await registry.client(access.end_session())
