"""The two moments reach the registry, in order, however long that takes."""

import asyncio
from collections.abc import Callable
from typing import Literal

from registry.client import AsyncClient
from registry.contract.nodes import Applied
from serving.agent.confirm import Confirmations
from tests.serving.agent.making import fence
from tests.serving.agent.peer import NODE, TOKEN, Peer


def moment(generation: int, what: Literal["switched", "drained"]) -> Applied:
    return Applied(
        incarnation="inc_1", deployment="prod/m", fence=fence(generation), moment=what, local_ms=1.0
    )


def told(peer: Peer) -> list[tuple[int, str]]:
    return [(item.fence.generation, item.moment) for item in peer.applied]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_nothing_is_told_before_earlier_incarnations_had_their_last_word(peer: Peer) -> None:
    may = asyncio.Event()
    async with AsyncClient(peer.url, TOKEN) as client:
        confirmations = Confirmations(client, NODE, may)
        confirmations.add(moment(1, "switched"))
        confirmations.add(moment(1, "drained"))
        await asyncio.sleep(0.1)
        assert told(peer) == []
        may.set()
        await until(lambda: told(peer) == [(1, "switched"), (1, "drained")])


async def test_while_the_registry_is_away_only_the_newest_generation_waits(peer: Peer) -> None:
    peer.stop()
    may = asyncio.Event()
    may.set()
    async with AsyncClient(peer.url, TOKEN) as client:
        confirmations = Confirmations(client, NODE, may)
        confirmations.add(moment(1, "switched"))
        await asyncio.sleep(0.1)
        confirmations.add(moment(2, "switched"))
        confirmations.add(moment(2, "drained"))
        peer.start()
        await until(lambda: (2, "drained") in told(peer))
        await confirmations.close(5)
        assert told(peer)[-2:] == [(2, "switched"), (2, "drained")]
        assert (1, "drained") not in told(peer)


async def test_a_refused_moment_does_not_hold_up_the_next(peer: Peer) -> None:
    may = asyncio.Event()
    may.set()
    peer.refuse = 409
    async with AsyncClient(peer.url, TOKEN) as client:
        confirmations = Confirmations(client, NODE, may)
        confirmations.add(moment(1, "switched"))
        await confirmations.close(5)
        peer.refuse = None
        confirmations.add(moment(2, "switched"))
        await until(lambda: told(peer) == [(2, "switched")])
