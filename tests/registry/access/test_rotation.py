"""Rotation with an overlap, on the database's clock; last use; and secrets that are told once."""

import logging
from datetime import timedelta

import pytest

from registry.client import ApiError, access
from registry.contract.tokens import Role, SessionCreate, TokenCreate, TokenRotate, TokenSecret
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import enrol
from tests.registry.support import run_sql


async def token(registry: Registry, **wishes: object) -> TokenSecret:
    body = TokenCreate(name="ci", roles=(Role.PUBLISHER,), models=("ants",), **wishes)  # type: ignore[arg-type]
    return await registry.client(access.create_token(body))


async def test_the_old_secret_works_until_the_grace_is_over(registry: Registry) -> None:
    old = await token(registry, expires_in_s=7_200)
    session = await registry.with_token(old.secret)(access.create_session(SessionCreate()))
    new = await registry.client(access.rotate_token(old.token.id, TokenRotate(grace_s=600)))
    assert new.secret != old.secret
    assert (new.token.replaces, new.token.name, new.token.roles, new.token.models) == (
        old.token.id,
        "ci",
        (Role.PUBLISHER,),
        ("ants",),
    )
    listed = {found.id: found for found in (await registry.client(access.tokens())).items}
    end = listed[old.token.id].expires_at
    assert end is not None and new.token.expires_at is not None
    assert end - new.token.created_at == timedelta(seconds=600)
    assert new.token.expires_at - new.token.created_at == timedelta(seconds=7_200), "as long a life again"
    assert listed[session.token.id].expires_at == end, "its sessions end with it"
    for secret in (old.secret, new.secret, session.secret):
        assert (await registry.with_token(secret)(access.whoami())).name == "ci"
    await run_sql(registry, "UPDATE tokens SET expires_at = now() WHERE id = %s", old.token.id)
    with pytest.raises(ApiError, match="the token ci expired at"):
        await registry.with_token(old.secret)(access.whoami())
    assert (await registry.with_token(new.secret)(access.whoami())).name == "ci"
    actions = [(e.action, e.subject) for e in (await registry.client(access.audit(subject="token:"))).items]
    assert ("token.rotate", f"token:{old.token.id}") in actions
    assert ("token.create", f"token:{new.token.id}") in actions


async def test_without_grace_the_old_secret_ends_at_once(registry: Registry) -> None:
    old = await token(registry)
    new = await registry.client(access.rotate_token(old.token.id, TokenRotate(grace_s=0, expires_in_s=60)))
    assert new.token.expires_at is not None
    with pytest.raises(ApiError, match="expired"):
        await registry.with_token(old.secret)(access.whoami())


async def test_what_is_not_rotated(registry: Registry) -> None:
    old = await token(registry)
    new = await registry.client(access.rotate_token(old.token.id, TokenRotate()))
    with pytest.raises(ApiError, match="was rotated already"):
        await registry.client(access.rotate_token(old.token.id, TokenRotate()))
    # Whoever lost the answer revokes what it made, and rotates again.
    await registry.client(access.revoke_token(new.token.id))
    await registry.client(access.rotate_token(old.token.id, TokenRotate()))
    with pytest.raises(ApiError, match="does not work any more"):
        await registry.client(access.rotate_token(new.token.id, TokenRotate()))
    session = await registry.client(access.create_session(SessionCreate()))
    with pytest.raises(ApiError, match="is a session's token"):
        await registry.client(access.rotate_token(session.token.id, TokenRotate()))
    node = await enrol(registry)
    of_node = next(t for t in (await registry.client(access.tokens())).items if t.node == node.node)
    with pytest.raises(ApiError, match="is a node's token") as refused:
        await registry.client(access.rotate_token(of_node.id, TokenRotate()))
    assert "enrols again" in refused.value.problem.hint
    with pytest.raises(ApiError, match="there is no token tok_none"):
        await registry.client(access.rotate_token("tok_none", TokenRotate()))


async def test_last_use_is_written_at_most_once_a_minute(registry: Registry) -> None:
    made = await token(registry)
    client = registry.with_token(made.secret)
    row = "SELECT last_used_at, xmin::text FROM tokens WHERE id = %s"
    assert (await run_sql(registry, row, made.token.id))[0][0] is None
    await client(access.whoami())
    written = await run_sql(registry, row, made.token.id)
    assert written[0][0] is not None
    for _ in range(5):
        await client(access.whoami())
    assert await run_sql(registry, row, made.token.id) == written, "the row was not written again"
    await run_sql(
        registry,
        "UPDATE tokens SET last_used_at = last_used_at - interval '2 min' WHERE id = %s",
        made.token.id,
    )
    await client(access.whoami())
    assert (await run_sql(registry, row, made.token.id))[0][0] >= written[0][0]


async def test_secrets_are_in_no_log_and_in_no_list(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = await token(registry)
    client = registry.with_token(made.secret)
    await client(access.whoami())
    session = await client(access.create_session(SessionCreate()))
    rotated = await registry.client(access.rotate_token(made.token.id, TokenRotate()))
    node = await enrol(registry)
    with pytest.raises(ApiError):
        await client(access.tokens())
    await registry.client(access.revoke_token(made.token.id))
    with pytest.raises(ApiError):
        await client(access.whoami())
    listed = (await registry.client(access.tokens())).model_dump_json()
    for secret in (made.secret, session.secret, rotated.secret, node.token):
        assert secret not in caplog.text
        assert secret not in listed


async def test_a_name_is_one_person_in_one_spelling(registry: Registry) -> None:
    made = await registry.client(
        access.create_token(TokenCreate(name="  Ａｎａ\u3000 Ñandú ", roles=(Role.VIEWER,)))
    )
    assert made.token.name == "Ana Ñandú"
    for name, what in {
        "ana\u202eneb": "U+202E",
        "a\u200bna": "U+200B",
        "\t": "the name is empty",
        "Controller": "the registry's own",
        "node prod/n1": "the registry's own",
    }.items():
        with pytest.raises(ValueError, match=what.replace("+", r"\+")):
            TokenCreate(name=name, roles=(Role.VIEWER,))


async def test_tokens_of_nodes_come_from_enrolling(registry: Registry) -> None:
    with pytest.raises(ApiError, match="belongs to one node") as refused:
        await registry.client(access.create_token(TokenCreate(name="n", roles=(Role.NODE,))))
    assert "slipway node invite" in refused.value.problem.hint
