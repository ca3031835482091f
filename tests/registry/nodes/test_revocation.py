"""Nodes' tokens are revoked at once in every process; one-time tokens are good once and in one place."""

import asyncio
from time import monotonic

import pytest

from registry.client import ApiError, access
from registry.client import nodes as calls
from registry.contract.nodes import Enrol, EnrolmentCreate
from registry.contract.tokens import Role, SessionCreate
from registry.database import Database
from registry.edge.principal import hash_secret
from registry.errors import Unauthenticated
from registry.nodes.tokens import KEPT_S, TokenCache
from tests.registry.conftest import Registry, serving
from tests.registry.nodes.agents import HARDWARE, Agent, enrol
from tests.registry.support import run_sql

pytestmark = pytest.mark.timeout(120)


def wish(name: str) -> Enrol:
    return Enrol(name=name, targets=("ort.cpu",), hardware=HARDWARE, address=f"{name}:8000")


async def test_a_revoked_token_is_refused_before_any_cache_is_old(
    registry: Registry,
) -> None:
    enrolled = await enrol(registry)
    token = next(t for t in (await registry.client(access.tokens())).items if t.node == enrolled.node)
    async with serving(registry.settings) as other_url:
        agents = [Agent(url, enrolled) for url in (registry.url, other_url)]
        # The last read of it was a moment ago, so the caches alone would go on believing it.
        for agent in agents:
            assert (await agent.poll()).status_code == 200
        await registry.client(access.revoke_token(token.id))
        began = monotonic()
        statuses = [200, 200]
        while 200 in statuses and monotonic() - began < KEPT_S - 1:
            statuses = [(await agent.poll()).status_code for agent in agents]
            await asyncio.sleep(0.02)
        assert statuses == [401, 401]
        for agent in agents:
            await agent.http.aclose()


async def test_what_was_read_before_a_revocation_is_not_kept(registry: Registry) -> None:
    enrolled = await enrol(registry)
    database = Database(registry.settings)
    cache = TokenCache(database)
    try:
        reading = asyncio.create_task(cache.check(f"Bearer {enrolled.token}"))
        # It has begun, and waits for the database.
        for _ in range(5):
            await asyncio.sleep(0)
        assert not reading.done()
        cache.forget("tok_whichever")
        assert (await reading).node_id == enrolled.node
        revoke = "UPDATE tokens SET revoked_at = now() WHERE hash = %s"
        await run_sql(registry, revoke, hash_secret(enrolled.token))
        with pytest.raises(Unauthenticated, match="was revoked"):
            await cache.check(f"Bearer {enrolled.token}")
    finally:
        await database.close()


async def test_a_session_is_refused_at_once(registry: Registry) -> None:
    session = await registry.client(access.create_session(SessionCreate()))
    browser = registry.with_token(session.secret)
    assert (await browser(access.whoami())).name == "admin"
    await registry.client(access.revoke_token(session.token.id))
    with pytest.raises(ApiError, match="was revoked"):
        await browser(access.whoami())


async def test_of_two_machines_with_one_invitation_one_enrols(registry: Registry) -> None:
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="prod")))
    newcomer = registry.with_token(invited.secret)
    answers = await asyncio.gather(
        *(newcomer(calls.enrol(wish(name))) for name in ("n1", "n2")), return_exceptions=True
    )
    (refused,) = [answer for answer in answers if isinstance(answer, BaseException)]
    assert isinstance(refused, ApiError) and refused.status == 401
    assert "was used" in refused.problem.detail
    assert len((await registry.client(calls.page())).items) == 1
    assert await run_sql(registry, "SELECT count(*) FROM tokens WHERE node_id IS NOT NULL") == [(1,)]


async def test_an_invitation_is_good_for_its_environment(registry: Registry) -> None:
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="qa")))
    newcomer = registry.with_token(invited.secret)
    wrong = wish("n1").model_copy(update={"environment": "prod"})
    with pytest.raises(ApiError, match="the one-time token is for qa, not for prod") as refused:
        await newcomer(calls.enrol(wrong))
    assert refused.value.status == 403
    assert "slipway node invite prod" in refused.value.problem.hint
    # It was not used up by that.
    made = await newcomer(calls.enrol(wish("n1").model_copy(update={"environment": "qa"})))
    assert made.environment == "qa"
    of_prod = await registry.as_role(Role.VIEWER, environments=("prod",))
    assert (await of_prod(calls.page())).items == ()
    me = await registry.with_token(made.token)(access.whoami())
    assert (me.roles, me.environments) == ((Role.NODE,), ("qa",))


async def test_a_one_time_token_is_no_token(registry: Registry) -> None:
    invited = await registry.client(calls.invite(EnrolmentCreate(environment="prod")))
    with pytest.raises(ApiError, match="not known here"):
        await registry.with_token(invited.secret)(access.whoami())
