"""What a web server must refuse or bear, on raw sockets."""

import asyncio
import json

import numpy as np

from tests.serving.gateway.conftest import EngineRun
from tests.serving.gateway.contracts import ADDER, CLASSIFIER, SLOW, ArmSpec, EntrySpec
from tests.serving.gateway.rig import Rig

BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,0,0,0]}]}'
LENGTH = b"content-length: %d\r\n" % len(BODY)
POST = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: x\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


async def talk(rig: Rig, data: bytes) -> bytes:
    """All that comes back until the server closes, or is quiet for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(data)
    got = b""
    try:
        while chunk := await asyncio.wait_for(reader.read(65536), 1.0):
            got += chunk
    except TimeoutError:
        pass
    writer.close()
    return got


REFUSED = [
    ("length and chunks", POST + LENGTH + b"transfer-encoding: chunked\r\n\r\n" + BODY, 400),
    ("two lengths", POST + LENGTH + b"content-length: 5\r\n\r\n" + BODY, 400),
    ("folded header", POST + b"x-a: 1\r\n 2\r\n" + LENGTH + b"\r\n" + BODY, 400),
    ("101 headers", b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
    ("17 KB of headers", b"GET /healthz HTTP/1.1\r\na: " + b"b" * 17_000 + b"\r\n\r\n", 431),
    ("long address", b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\n\r\n", 431),
    ("upgrade", b"GET /healthz HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", 400),
    ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 4, 400),
]


async def test_what_is_refused_and_hurts_nobody(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    answers = await asyncio.gather(*(talk(rig, request) for _, request, _ in REFUSED))
    for (name, _, status), got in zip(REFUSED, answers, strict=True):
        assert got.startswith(b"HTTP/1.1 %d " % status), (name, got)
        assert b"application/problem+json" in got, name
        assert b"connection: close" in got, name
        assert got.count(b"HTTP/1.1 4") == 1, name
    assert (await rig.classify(0)).status_code == 200
    assert (await talk(rig, GET)).startswith(b"HTTP/1.1 200")


async def test_a_pipeline_is_answered_in_order_and_no_deeper_than_its_limit(
    rig: Rig, classifier: str
) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    one = POST + b"x-request-id: %d\r\n" + LENGTH + b"\r\n" + BODY
    got = await talk(rig, b"".join(one % n for n in range(6)))
    ids = [line for line in got.split(b"\r\n") if line.startswith(b"x-request-id")]
    assert ids == [b"x-request-id: %d" % n for n in range(6)]
    deep = await talk(rig, b"".join(one % n for n in range(40)))
    assert b"HTTP/1.1 400" in deep and b"pipeline" in deep


async def test_100_continue_and_http_1_0(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(POST + LENGTH + b"expect: 100-continue\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)).startswith(b"HTTP/1.1 200")
    writer.close()
    old = await talk(rig, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert old.startswith(b"HTTP/1.1 200") and b"connection: close" in old


async def test_an_end_of_stream_means_that_the_caller_is_gone(rig: Rig, holdable: EngineRun) -> None:
    await rig.take(EntrySpec((ArmSpec("s", holdable.socket, SLOW),)))
    holdable.hold()
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(POST + LENGTH + b"\r\n" + BODY)
    await rig.inside("s", 1)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await rig.inside("s", 0)
    assert rig.outcomes("s") == {"cancelled": 1}


async def test_bodies_in_single_bytes(rig: Rig, classifier: str) -> None:
    await rig.take(EntrySpec((ArmSpec("s", classifier, CLASSIFIER),)))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    for piece in (POST[:7], POST[7:], LENGTH, b"\r", b"\n", *(BODY[n : n + 1] for n in range(len(BODY)))):
        writer.write(piece)
        await asyncio.sleep(0)
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n"), 5)).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_who_reads_slowly_gets_whole_answers(rig: Rig, adder: str) -> None:
    """More than the buffers between hold, so that answers wait for the caller, and requests for them."""
    await rig.take(EntrySpec((ArmSpec("s", adder, ADDER),)))
    count, numbers = 8, np.arange(400_000, dtype=np.float32)
    own = {"shape": [1, len(numbers)], "datatype": "FP32"}
    tensor = {**own, "parameters": {"binary_data_size": numbers.nbytes}}
    part = json.dumps(
        {
            "inputs": [{"name": "a", **tensor}, {"name": "b", **tensor}],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    body = part + numbers.tobytes() * 2
    lengths = b"inference-header-content-length: %d\r\ncontent-length: %d\r\n\r\n" % (len(part), len(body))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write((POST + lengths + body) * count)
    assert 0 < await _counted(rig) < count
    for _ in range(count):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        assert head.startswith(b"HTTP/1.1 200 ")
        assert fields[b"x-slipway-version"] == b"m@1@fp32"
        answer = await asyncio.wait_for(reader.readexactly(int(fields[b"content-length"])), 10)
        data = answer[int(fields[b"inference-header-content-length"]) :]
        assert np.array_equal(np.frombuffer(data, dtype=np.float32), numbers * 2 + 1)
    writer.close()


async def _counted(rig: Rig) -> int:
    """Answers, once none comes any more."""
    before = -1
    while (now := rig.outcomes("s").get("ok", 0)) != before or not now:
        before = now
        await asyncio.sleep(0.5)
    return now
