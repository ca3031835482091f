"""Real engine processes on sockets of their own, ended with the test."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from serving.engine.client import EngineClient
from serving.engine.launch import EngineOrder, EngineProcess

Start = Callable[[Path], Awaitable[EngineProcess]]
Connect = Callable[[EngineProcess], Awaitable[EngineClient]]


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short path: a unix socket's path must stay below 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        yield Path(folder)


@pytest.fixture
async def start(sockets: Path) -> AsyncIterator[Start]:
    """Starts an engine process on a model and waits until it is ready."""
    started: list[EngineProcess] = []

    async def _start(model: Path) -> EngineProcess:
        order = EngineOrder(model, "ort.cpu", sockets / f"{len(started)}.sock", log=sockets / "log")
        process = await EngineProcess.spawn(order)
        started.append(process)
        await process.ready(60)
        return process

    yield _start
    for process in started:
        await process.kill()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[EngineClient] = []

    async def _connect(process: EngineProcess) -> EngineClient:
        clients.append(await EngineClient.connect(process.order.socket))
        return clients[-1]

    yield _connect
    for client in clients:
        client.close()
