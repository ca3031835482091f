"""Two API processes behind one address are killed in turn, under load: nothing acknowledged is lost."""

import asyncio
from collections import Counter
from collections.abc import Callable

from registry.client import AsyncClient, models, releases, versions
from registry.client.errors import Unreachable
from registry.contract.releases import ReleasePhase
from registry.contract.versions import ModelCreate, Version
from registry.settings import Settings
from slipway.stack import Stack
from tests.chaos.forwarder import Forwarder
from tests.chaos.server import ADMIN, Server
from tests.registry import support
from tests.registry.conftest import Registry
from tests.registry.releases.fleet import fleet
from tests.registry.releases.stage import REF, advance, in_phase, promote, stage, until

CLIENTS = 8


class Load:
    """Clients that register versions as fast as they are answered; `acknowledged`: number → its tag."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._going = True
        self.acknowledged: dict[int, str] = {}
        self.sent: set[str] = set()

    async def run(self, client_no: int) -> None:
        client = AsyncClient(self._url, ADMIN)
        at = 0
        while self._going:
            tag = f"{client_no}-{at}"
            at += 1
            body = support.declared().model_copy(update={"tags": {"sent": tag}})
            self.sent.add(tag)
            try:
                made = await client(versions.create("loaded", body))
            except Unreachable:
                # Both were away for longer than a client is patient; it was told that nothing is sure.
                continue
            self.acknowledged[made.number] = tag
        await client.close()

    def stop(self) -> None:
        self._going = False

    async def more(self, n: int) -> None:
        """Waits until `n` more are acknowledged, at most 60 s."""
        wanted = len(self.acknowledged) + n
        async with asyncio.timeout(60):
            while len(self.acknowledged) < wanted:
                await asyncio.sleep(0.02)


async def _all(client: AsyncClient) -> list[Version]:
    found: list[Version] = []
    token = None
    while True:
        page = await client(versions.page("loaded", token, 1000))
        found += page.items
        token = page.next_page_token
        if token is None:
            return found


def _registry(own: Stack, url: str) -> Registry:
    at = own.addresses
    settings = Settings(
        database_url=at.database_url,  # type: ignore[arg-type]
        redis_url=at.redis_url,  # type: ignore[arg-type]
        s3_endpoint_url=at.s3_endpoint_url,
        s3_access_key=at.s3_access_key,  # type: ignore[arg-type]
        s3_secret_key=at.s3_secret_key,  # type: ignore[arg-type]
    )
    return Registry(url, settings, AsyncClient(url, ADMIN), [])


async def test_nothing_acknowledged_is_lost(own: Stack, serve: Callable[..., Server]) -> None:
    first, second = serve(), serve()
    with Forwarder(first.port, second.port) as front:
        registry = _registry(own, front.url)
        await support.ready_version(registry)
        await support.built(registry, "animals@1")
        await stage(registry)
        await registry.client(models.create(ModelCreate(name="loaded")))
        async with fleet(registry, size=1):
            release = await promote(registry, "animals@1")
            load = Load(front.url)
            clients = [asyncio.create_task(load.run(each)) for each in range(CLIENTS)]
            for victim in (first, second):
                await load.more(50)
                victim.kill()
                # The other one alone carries the load, and takes over what the dead one tended.
                await load.more(50)
                await asyncio.to_thread(victim.start)
            load.stop()
            await asyncio.gather(*clients)
            release = await until(registry, release.number, lambda each: each.phase != "preparing")
            if release.phase is ReleasePhase.RUNNING:
                await advance(registry, release.number)
            await in_phase(registry, release.number, ReleasePhase.COMPLETED)
        found = await _all(registry.client)
        known = await registry.client(releases.get(REF, release.number))
        for each in [registry.client, *registry.clients]:
            await each.close()
    tags = {version.number: version.tags["sent"] for version in found}
    assert sorted(tags) == list(range(1, len(found) + 1)), "no number is missing, none was given twice"
    assert load.acknowledged.items() <= tags.items(), "what was acknowledged is there, as it was sent"
    twice = [tag for tag, n in Counter(tags.values()).items() if n > 1]
    assert twice == [], "a repeated request is one version"
    assert set(tags.values()) <= load.sent
    completed = [change for change in known.history if change.phase is ReleasePhase.COMPLETED]
    assert len(completed) == 1, "one controller at a time moved the release"
