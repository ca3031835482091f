import asyncio
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from serving.engine.client import EngineClient
from serving.engine.errors import EngineFailed, EngineLost, EngineTimeout
from serving.engine.frames import FrameKind, plain_frame, tensor_frame
from serving.engine.sync_client import SyncEngineClient
from serving.runtimes.errors import InputError
from tests.serving import tiny_models
from tests.serving.engine.conftest import Connect, Start

ROW = {"x": np.array([[0, 0, 9, 0]], np.float32)}


def raw_socket(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(str(path))
    return sock


async def test_answers_with_the_outputs_and_the_engine_s_time(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    client = await connect(await start(tiny_models.classifier(tmp_path / "c.onnx")))
    answer = await client.infer(ROW)
    assert answer.outputs["scores"].shape == (1, 3)
    assert answer.outputs["scores"].argmax() == 2
    assert 0 < answer.engine_us < 5_000_000


async def test_large_tensors_go_both_ways(start: Start, connect: Connect, tmp_path: Path) -> None:
    client = await connect(await start(tiny_models.adder(tmp_path / "a.onnx", amount=0)))
    a = np.random.default_rng(5).standard_normal((3, 500_000)).astype(np.float32)
    answers = await asyncio.gather(*(client.infer({"a": a, "b": a * index}) for index in range(4)))
    for index, answer in enumerate(answers):
        np.testing.assert_allclose(answer.outputs["sum"], a + a * index)


async def test_each_of_many_in_flight_gets_its_own_answer(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    process = await start(tiny_models.adder(tmp_path / "a.onnx", amount=0))
    clients = [await connect(process) for _ in range(3)]
    zero = np.zeros((1, 1), np.float32)
    answers = await asyncio.gather(
        *(clients[i % 3].infer({"a": np.full((1, 1), i, np.float32), "b": zero}) for i in range(90))
    )
    assert [float(answer.outputs["sum"][0, 0]) for answer in answers] == list(range(90))
    assert [client.in_flight for client in clients] == [0, 0, 0]
    assert (await clients[0].info()).runs == 90


async def test_a_wrong_input_comes_back_typed(start: Start, connect: Connect, tmp_path: Path) -> None:
    client = await connect(await start(tiny_models.classifier(tmp_path / "c.onnx")))
    with pytest.raises(InputError) as caught:
        await client.infer({"x": np.zeros((1, 5), np.float32)})
    assert (caught.value.what, caught.value.wanted) == ("shape of input 'x'", "FP32[batch, 4]")
    assert caught.value.mend == "axis 1 must be 4"
    assert (await client.infer(ROW)).outputs["scores"].shape == (1, 3)


async def test_a_failed_run_fails_alone(start: Start, connect: Connect, tmp_path: Path) -> None:
    client = await connect(await start(tiny_models.failing_on_value(tmp_path / "f.onnx", rows=4)))
    found = await asyncio.gather(
        *(client.infer({"index": np.array([[index]])}) for index in (1, 50, 3)), return_exceptions=True
    )
    failed = found.pop(1)
    assert isinstance(failed, EngineFailed)
    assert failed.kind == "run_failed"
    assert [answer.outputs["y"].item() for answer in found if not isinstance(answer, BaseException)] == [1, 3]


async def test_tells_about_itself(start: Start, connect: Connect, tmp_path: Path) -> None:
    process = await start(tiny_models.heavy(tmp_path / "h.onnx", megabytes=32))
    client = await connect(process)
    await client.ping()
    info = await client.info()
    assert (info.pid, info.target, info.provider) == (process.pid, "ort.cpu", "CPUExecutionProvider")
    assert info.signature.inputs[0].shape == ("batch", 1024)
    assert set(info.load_ms) == {"read", "deserialise", "copy", "warm_up"}
    assert 30 << 20 < info.engine_bytes < info.rss_bytes


async def test_warms_every_bucket_with_an_example_or_without(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    client = await connect(await start(tiny_models.failing_on_value(tmp_path / "f.onnx", rows=4)))
    made_up = await client.warm(8)
    assert [point.rows for point in made_up.points] == [1, 2, 4, 8]
    assert [point.rows for point in (await client.warm(2, {"index": np.array([[3]])})).points] == [1, 2]
    with pytest.raises(EngineFailed, match="out of data bounds"):
        await client.warm(2, {"index": np.array([[9]])})


@pytest.mark.parametrize(
    "message", [b"nonsense", bytes(24), plain_frame(FrameKind.ANSWER, 1).parts[0] + b"null"]
)
async def test_a_malformed_frame_closes_only_its_client(
    start: Start, connect: Connect, tmp_path: Path, message: bytes
) -> None:
    process = await start(tiny_models.classifier(tmp_path / "c.onnx"))
    good = await connect(process)
    with raw_socket(process.order.socket) as bad:
        bad.send(message)
        bad.settimeout(10)
        assert bad.recv(100) == b""
    assert (await good.infer(ROW)).outputs["scores"].shape == (1, 3)


async def test_unreadable_tensors_close_only_their_client(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    process = await start(tiny_models.classifier(tmp_path / "c.onnx"))
    good = await connect(process)
    frame = plain_frame(FrameKind.INFER, 1, 0, [["x", "FP32", [1, 4], 0, 16, True]])
    with raw_socket(process.order.socket) as bad:
        frame.send(bad)
        bad.settimeout(10)
        assert bad.recv(100) == b""
    assert (await good.infer(ROW)).outputs["scores"].shape == (1, 3)


async def test_clients_that_vanish_take_their_requests_along(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    process = await start(tiny_models.slow(tmp_path / "s.onnx", work=500))
    staying, *leaving = [await connect(process) for _ in range(6)]
    first, second = staying.submit(ROW), staying.submit(ROW)
    abandoned = [client.submit(ROW) for client in leaving for _ in range(3)]
    await first
    await asyncio.sleep(0.02)
    for client in leaving:
        client.close()
    found = await asyncio.gather(*abandoned, return_exceptions=True)
    assert sum(isinstance(error, EngineLost) for error in found) >= 13
    np.testing.assert_allclose((await second).outputs["y"], ROW["x"])
    await staying.infer(ROW)
    # Its own three, and what was under way when the others left.
    assert (await staying.info()).runs <= 5


async def test_a_run_whose_deadline_passed_is_not_begun(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    client = await connect(await start(tiny_models.slow(tmp_path / "s.onnx", work=300)))
    first = client.submit(ROW, time.monotonic() + 60)
    second = client.submit(ROW, time.monotonic() + 0.001)
    np.testing.assert_allclose((await first).outputs["y"], ROW["x"])
    with pytest.raises(EngineFailed) as caught:
        await second
    assert caught.value.kind == "expired"
    assert (await client.info()).runs == 1


async def test_a_timed_out_run_keeps_its_slot_until_it_ends(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    client = await connect(await start(tiny_models.slow(tmp_path / "s.onnx", work=2000)))
    with pytest.raises(EngineTimeout):
        await client.infer(ROW, timeout_s=0.05)
    assert client.in_flight == 1
    await client.ping(timeout_s=60)
    assert client.in_flight == 0


async def test_clients_take_turns(start: Start, connect: Connect, tmp_path: Path) -> None:
    process = await start(tiny_models.slow(tmp_path / "s.onnx", work=8))
    greedy = [await connect(process) for _ in range(3)]
    modest = await connect(process)
    many = [client.submit(ROW) for client in greedy for _ in range(60)]
    while sum(reply.done() for reply in many) < 60:
        await asyncio.sleep(0.01)
    before = (await modest.info()).runs
    await modest.infer(ROW)
    assert (await modest.info()).runs - before < 20
    await asyncio.gather(*many)


async def test_a_client_that_never_reads_is_dismissed(start: Start, connect: Connect, tmp_path: Path) -> None:
    process = await start(tiny_models.classifier(tmp_path / "c.onnx"))
    good = await connect(process)
    with raw_socket(process.order.socket) as deaf:
        deaf.settimeout(30)
        with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
            for request in range(100_000):
                plain_frame(FrameKind.INFO, request).send(deaf)
    assert (await good.infer(ROW)).outputs["scores"].shape == (1, 3)


async def test_the_blocking_client_speaks_the_same(start: Start, tmp_path: Path) -> None:
    process = await start(tiny_models.failing_on_value(tmp_path / "f.onnx", rows=4))

    def talk() -> list[object]:
        with SyncEngineClient(process.order.socket) as client:
            client.ping()
            said: list[object] = [client.info().pid, len(client.warm(2).points)]
            said.append(client.infer({"index": np.array([[2]])}).outputs["y"].item())
            with pytest.raises(EngineFailed):
                client.infer({"index": np.array([[9]])})
            with pytest.raises(InputError):
                client.infer({"index": np.array([[9.0]])})
            return said

    assert await asyncio.to_thread(talk) == [process.pid, 2, 2.0]


async def test_nobody_there_is_told_with_the_path(sockets: Path) -> None:
    with pytest.raises(EngineLost, match=r"none\.sock"):
        await EngineClient.connect(sockets / "none.sock")
    with pytest.raises(EngineLost, match=r"none\.sock"):
        SyncEngineClient(sockets / "none.sock")


async def test_a_used_up_client_says_so(start: Start, connect: Connect, tmp_path: Path) -> None:
    client = await connect(await start(tiny_models.classifier(tmp_path / "c.onnx")))
    client.close()
    assert await client.lost == "this client was closed"
    with pytest.raises(EngineLost, match="this client was closed"):
        await client.infer(ROW)


def test_frames_of_one_request_are_small(tmp_path: Path) -> None:
    frame = tensor_frame(FrameKind.INFER, 1, 0, ROW)
    assert frame.fd is None
    assert sum(map(len, frame.parts)) < 128
