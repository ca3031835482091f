"""The cache of node tokens: fast, and never wrong for long."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from sqlalchemy import func, select, update

from registry.database import Database
from registry.edge.principal import hash_secret
from registry.errors import Unauthenticated
from registry.nodes.tokens import KEPT_S, TokenCache
from registry.settings import Settings
from registry.tables.access import TokenRow
from registry.tables.base import new_id

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    made = Database(settings)
    yield made
    await made.close()


async def token(database: Database, secret: str) -> None:
    async with database.session() as session, session.begin():
        session.add(
            TokenRow(
                id=new_id("tok"),
                name=f"node {secret}",
                hash=hash_secret(secret),
                roles=["node"],
                models=[],
                environments=[],
                node_id=f"nod_{secret}",
                created_by="t",
            )
        )


async def test_many_at_once(database: Database) -> None:
    for number in range(20):
        await token(database, f"s{number}")
    cache = TokenCache(database)
    found = await asyncio.gather(*(cache.check(f"Bearer s{number}") for number in range(20)))
    assert [principal.node_id for principal in found] == [f"nod_s{number}" for number in range(20)]
    async with database.session() as session:
        unused = select(func.count()).where(TokenRow.last_used_at.is_(None))
        assert (await session.execute(unused)).scalar_one() == 0


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
async def test_an_ended_token_is_refused_within_seconds(database: Database, column: str) -> None:
    await token(database, "a")
    cache = TokenCache(database)
    await cache.check("Bearer a")
    async with database.session() as session, session.begin():
        await session.execute(update(TokenRow).values({column: func.now()}))
    began = monotonic()
    with pytest.raises(Unauthenticated, match=r"revoked|expired"):
        while monotonic() - began < KEPT_S + 5:
            await cache.check("Bearer a")
            await asyncio.sleep(0.1)


async def test_refusals_say_why(database: Database) -> None:
    cache = TokenCache(database)
    for header in (None, "Basic x", "Bearer "):
        with pytest.raises(Unauthenticated):
            await cache.check(header)
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="not known"):
            await cache.check("Bearer nothing")


async def test_a_database_that_fails_is_no_refusal(database: Database, settings: Settings) -> None:
    dead = Database(
        settings.model_copy(
            update={"database_url": type(settings.database_url)("postgresql://nobody@127.0.0.1:1/none")}
        )
    )
    cache = TokenCache(dead)
    with pytest.raises(Exception, match=r"connect|refused"):
        await cache.check("Bearer a")
    await dead.close()
