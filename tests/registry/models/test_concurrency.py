"""Many clients at one model: nothing fails, no number is missing, and list and get tell one truth."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from registry.client import AsyncClient, models, versions
from registry.contract.versions import StageChange, Version
from tests.registry.conftest import ADMIN, Registry
from tests.registry.support import FILES, declared, make_model, sent, stored, verifying

CLIENTS = 64
EACH = 2
NEW_BYTES = 4


class Watched(httpx.AsyncBaseTransport):
    """Counts what the registry really answered: clients repeat a 503 by themselves."""

    def __init__(self, answers: Counter[int]) -> None:
        self._answers = answers
        self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        self._answers[response.status_code] += 1
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


@asynccontextmanager
async def crowd(registry: Registry, answers: Counter[int]) -> AsyncIterator[list[AsyncClient]]:
    """Clients with connections of their own."""
    clients = [AsyncClient(registry.url, ADMIN, Watched(answers)) for _ in range(CLIENTS)]
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def _register(registry: Registry, client: AsyncClient, at: int) -> list[int]:
    """As clients do: reserve, upload, seal. Most of them have trained the same model again."""
    made = []
    for _ in range(EACH):
        files = {"model.onnx": f"bytes of client {at}".encode()} if at % NEW_BYTES == 0 else FILES
        version = await client(versions.create("animals", declared(files)))
        if files is not FILES:
            await sent(registry, *files.values())
        await client(versions.seal("animals", version.number))
        made.append(version.number)
    return made


async def _search(client: AsyncClient, done: asyncio.Event) -> None:
    while not done.is_set():
        page = await client(versions.search("name=animals and stage in (ready, archived)", limit=20))
        assert {version.stage for version in page.items} <= {"ready", "archived"}
        await asyncio.sleep(0.1)


async def _archive(client: AsyncClient, done: asyncio.Event) -> set[int]:
    """Puts the oldest ready version away now and then."""
    archived: set[int] = set()
    while not done.is_set() or not archived:
        for version in (await client(versions.search("stage=ready", "created_at", limit=1))).items:
            await client(versions.archive("animals", version.number, StageChange(reason="old")))
            archived.add(version.number)
        await asyncio.sleep(0.3)
    return archived


async def _crowded(registry: Registry, clients: list[AsyncClient]) -> set[int]:
    """All of it at once. Gives the numbers of what was archived meanwhile."""
    done = asyncio.Event()
    async with verifying(registry):
        searching = [asyncio.create_task(_search(client, done)) for client in clients[:4]]
        archiving = asyncio.create_task(_archive(clients[4], done))
        made = await asyncio.gather(*(_register(registry, client, at) for at, client in enumerate(clients)))
        assert {number for each in made for number in each} == set(range(1, CLIENTS * EACH + 1))
        while (await registry.client(versions.search("stage=verifying", limit=1))).items:
            await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*searching)
        return await archiving


async def test_sixty_four_clients_at_one_model(registry: Registry) -> None:
    await make_model(registry)
    for content in FILES.values():
        await stored(registry, content)
    answers: Counter[int] = Counter()
    async with crowd(registry, answers) as clients:
        archived = await _crowded(registry, clients)
        listed = (await registry.client(versions.page("animals", limit=1000))).items
        got: list[Version] = await asyncio.gather(
            *(
                client(versions.get("animals", version.number))
                for client, version in zip(clients * EACH, listed, strict=True)
            )
        )
    assert max(answers) < 500, answers
    assert [version.number for version in got] == list(range(CLIENTS * EACH, 0, -1))
    assert list(listed) == got
    stages = {version.number: version.stage for version in got}
    assert {number for number, stage in stages.items() if stage == "archived"} == archived
    assert set(stages.values()) <= {"ready", "archived"}
    assert (await registry.client(models.get("animals"))).latest_version == CLIENTS * EACH
