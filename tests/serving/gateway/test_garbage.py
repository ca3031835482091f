"""What a request leaves behind: what only the collector finds is paid for by every later request."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.control import Table
from serving.gateway.gateway import Identity
from serving.gateway.settings import GatewaySettings
from serving.gateway.worker import Order, Worker, listen
from tests.serving.gateway.contracts import CLASSIFIER, ArmSpec, EntrySpec

BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,0,0,0]}]}'
REQUEST = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
REQUESTS = 200


@pytest.fixture
def collector() -> Iterator[None]:
    """The worker freezes what is there when it starts, here this test's own process."""
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
async def test_an_answered_request_leaves_nothing_to_the_collector(classifier: str, tmp_path: Path) -> None:
    order = Order(Identity(0, "inc-1", tmp_path), listen("127.0.0.1", 0), None, pid=1)
    worker = Worker(order, GatewaySettings())
    entry = EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)).entry()
    await worker.app.gateway.take(Table(seq=1, registry_id="reg_1", entries=(entry,)))
    running = asyncio.create_task(worker.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
    await _ask(reader, writer)
    gc.collect()
    gc.disable()
    for _ in range(REQUESTS):
        await _ask(reader, writer)
    assert gc.collect() < REQUESTS
    writer.close()
    worker.leave()
    await asyncio.wait_for(running, 10)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REQUEST)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    assert head.startswith(b"HTTP/1.1 200 ")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    await reader.readexactly(int(fields[b"content-length"]))
