"""Fixtures of the node protocol: rows of other rooms, and agents."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from registry.database import Database
from tests.registry.conftest import Registry
from tests.registry.nodes.agents import Agent, enrol
from tests.registry.nodes.world import World

MakeAgent = Callable[..., Awaitable[Agent]]


@pytest.fixture
async def world(registry: Registry) -> AsyncIterator[World]:
    database = Database(registry.settings)
    yield World(database)
    await database.close()


@pytest.fixture
async def agent(registry: Registry) -> AsyncIterator[MakeAgent]:
    """Enrols a node and gives its agent."""
    made: list[Agent] = []

    async def make(name: str = "n1", **wishes: Any) -> Agent:
        made.append(Agent(registry.url, await enrol(registry, name, **wishes)))
        return made[-1]

    yield make
    for each in made:
        await each.http.aclose()
