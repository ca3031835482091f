"""The stream: from a place on, alive, within the token's rights, and never at the cost of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import httpx
import pytest
from starlette.types import Message

from registry.client import ApiError, access, events
from registry.contract.events import Event, EventId, PinChanged
from registry.contract.tokens import Role, TokenCreate
from registry.database import Database
from registry.events.feed import Feed
from registry.events.filters import Filter
from registry.events.stream import Stream
from tests.registry.conftest import ADMIN, Registry
from tests.registry.events import telling
from tests.registry.support import run_sql

MANY = """INSERT INTO events (timeline, number, at, type, subject, actor, data)
          SELECT 1, n, now(), 'other.told', 'x:y', 'z', '{}' FROM generate_series(1, %s) n"""
NUMBERED = "UPDATE dispatch SET number = %s"


async def taken(told: AsyncIterator[Event], count: int) -> list[Event]:
    async with telling.deadline():
        return [await anext(told) for _ in range(count)]


async def test_a_stream_tells_what_is_wanted_from_now_or_from_a_place_on(registry: Registry) -> None:
    await telling.make_deployments(registry, "a", "b")
    await telling.pin(registry.client, "a")
    before = await telling.logged(registry, PinChanged, 2)
    follow = events.follow_async
    async with (
        aclosing(follow(registry.client, before[0].id)) as all_after,  # type: ignore[type-var]
        aclosing(follow(registry.client, before[-1].id, ["deployment.*"], ["prod/b"])) as of_b,  # type: ignore[type-var]
    ):
        first = await taken(all_after, 1)
        await telling.pin(registry.client, "a", begin=1)
        await telling.pin(registry.client, "b", begin=2)
        seen = first + await taken(all_after, 4)
        assert telling.reasons(await taken(of_b, 2), "b") == ["2"]
    assert [event.id for event in seen] == [event.id for event in (await telling.log(registry))[1:]]


async def test_a_long_way_back_is_read_by_pages(registry: Registry) -> None:
    """More than a process remembers, and more than a page: each once, in order."""
    await run_sql(registry, MANY, 2600)
    await run_sql(registry, NUMBERED, 2600)
    async with aclosing(events.follow_async(registry.client, "1-100")) as told:  # type: ignore[type-var]
        found = await taken(told, 2500)
    assert [event.id for event in found] == [f"1-{n}" for n in range(101, 2601)]


async def test_signs_of_life_carry_the_place_and_end_with_the_token(registry: Registry) -> None:
    made = await registry.client(access.create_token(TokenCreate(name="eye", roles=(Role.VIEWER,))))
    headers = {"authorization": f"Bearer {made.secret}"}
    url = f"{registry.url}/v1/events/stream"
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=10) as http,
        http.stream("GET", url, params={"type": "node.*"}) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        await telling.make_deployments(registry, "a")
        await telling.pin(registry.client, "a")
        async with telling.deadline():
            while await anext(lines) != "id: 1-2":
                pass
            await registry.client(access.revoke_token(made.token.id))
            async for _ in lines:
                pass
        refused = await http.get(url)
        assert refused.status_code == 401


async def test_waiting_streams_hold_no_connection_of_the_pool(registry: Registry) -> None:
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=registry.url, headers=headers, trust_env=False, timeout=20)
        )
        for _ in range(registry.settings.database_pool + 2):
            stream = await stack.enter_async_context(http.stream("GET", "/v1/events/stream"))
            assert stream.status_code == 200
        await registry.client(access.whoami())


async def test_a_place_that_is_none_is_refused(registry: Registry) -> None:
    for after, why in (("7-1", "there is no event 7-1 yet"), ("soon", "is not an event's id")):
        with pytest.raises(ApiError, match=why):
            await anext(events.follow_async(registry.client, after))
    nobody = registry.with_token("slp_unknown")
    with pytest.raises(ApiError, match="the token is not known here"):
        await anext(events.follow_async(nobody))


async def test_a_reader_that_does_not_read_is_cut(registry: Registry) -> None:
    """It is not waited for; it comes back with its last id, as after any other end."""
    database = Database(registry.settings)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        if len(sent) == 2:
            await asyncio.Event().wait()
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def allowed() -> None:
        """Always."""

    await run_sql(registry, MANY, 3)
    await run_sql(registry, NUMBERED, 3)
    stream = Stream(Feed(database), EventId(1, 1), Filter(), 10, allowed, take_s=0.1)
    scope: dict[str, Any] = {"type": "http"}
    async with telling.deadline():
        await stream(scope, receive, send)
    await database.close()
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert b"id: 1-1\n" in sent[1]["body"]
