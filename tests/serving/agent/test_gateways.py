"""The supervisor over real gateway workers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from registry.contract.counters import CounterEdges
from registry.contract.routes import RoutingUnit
from serving.agent.actions import Publish
from serving.agent.gateways import Gateways
from serving.agent.listener import listen
from serving.agent.state import StateDirectory
from serving.control import EngineLost, TableEntry
from tests.serving.agent.making import REGISTRY, fence


class Bench:
    def __init__(self, state: StateDirectory, workers: int) -> None:
        self.news = asyncio.Event()
        self.lost: list[EngineLost] = []
        self.listener = listen("127.0.0.1:0", state)
        self.gateways = Gateways(
            state, "inc_1", REGISTRY, self.listener, workers, self.news.set, self.lost.append
        )

    def publish(self, generation: int) -> int:
        """An empty route of this generation; the number of its table."""
        entry = TableEntry(
            deployment="prod/m",
            model="m",
            fence=fence(generation),
            unit=RoutingUnit(),
            salt="",
            arms=(),
            mirror=0,
            edges=CounterEdges(),
            drain_limit_s=10,
        )
        self.gateways.publish(Publish((entry,), frozenset(), False))
        return self.gateways.published["prod/m"].seq

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def bench(state: StateDirectory) -> AsyncIterator[Bench]:
    bench = Bench(state, workers=2)
    await bench.gateways.start()
    yield bench
    await bench.gateways.close(10)
    bench.listener.close()


def pids(bench: Bench) -> dict[int, int]:
    return {worker.number: worker.pid for worker in bench.gateways.workers}


async def test_all_workers_take_and_drain(bench: Bench) -> None:
    first = bench.publish(1)
    await bench.until(lambda: len(bench.gateways.alive) == 2 and bench.gateways.taken() == first)
    second = bench.publish(2)
    assert bench.gateways.taken() == first
    await bench.until(lambda: bench.gateways.taken() == second)
    await bench.until(lambda: bench.gateways.drained().get("prod/m") == fence(2))


async def test_a_worker_that_stays_silent_is_killed_and_replaced(bench: Bench) -> None:
    first = bench.publish(1)
    await bench.until(lambda: all_taken(bench, first))
    number, pid = next(iter(pids(bench).items()))
    os.kill(pid, signal.SIGSTOP)
    second = bench.publish(2)
    await bench.until(lambda: bench.gateways.taken() == second)
    assert number not in bench.gateways.alive
    assert not Path(f"/proc/{pid}").exists()
    await bench.until(lambda: all_taken(bench, second))
    assert number not in bench.gateways.alive, "numbers are not used twice"


def all_taken(bench: Bench, seq: int) -> bool:
    workers = bench.gateways.workers
    return len(workers) == 2 and all(worker.taken == seq for worker in workers)


async def test_a_killed_worker_is_replaced(bench: Bench) -> None:
    first = bench.publish(1)
    await bench.until(lambda: all_taken(bench, first))
    number, pid = next(iter(pids(bench).items()))
    os.kill(pid, signal.SIGKILL)
    await bench.until(lambda: number not in bench.gateways.alive)
    await bench.until(lambda: all_taken(bench, first))
