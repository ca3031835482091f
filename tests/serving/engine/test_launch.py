import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from serving.engine.client import EngineClient
from serving.engine.errors import EngineLost, EngineStartFailed
from serving.engine.launch import EngineOrder, EngineProcess
from tests.serving import tiny_models
from tests.serving.engine.conftest import Connect, Start

ROW = {"x": np.array([[1, 2, 3, 4]], np.float32)}


async def gone(pid: int, within: float = 20.0) -> bool:
    """A zombie counts as gone: it waits for whoever adopted it."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        await asyncio.sleep(0.02)
    return False


async def test_becomes_ready_part_by_part(sockets: Path, tmp_path: Path) -> None:
    model = tiny_models.classifier(tmp_path / "c.onnx")
    process = await EngineProcess.spawn(EngineOrder(model, "ort.cpu", sockets / "s", warm_rows=4))
    parts: list[str] = []
    info = await process.ready(60, parts.append)
    assert parts == ["start", "read", "deserialise", "warm_up"]
    assert info == process.info
    assert info.load_ms["warm_up"] > 0
    assert process.running
    assert process.rss_bytes > 10 << 20
    assert (sockets / "s").stat().st_mode & 0o777 == 0o600
    assert await process.stop() == 0
    assert not process.running
    assert process.rss_bytes == 0
    assert not (sockets / "s").exists()


async def test_a_wrong_file_is_told_with_its_reason(sockets: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.onnx"
    wrong.write_text("no model")
    process = await EngineProcess.spawn(EngineOrder(wrong, "ort.cpu", sockets / "s", log=sockets / "log"))
    with pytest.raises(EngineStartFailed, match=r"wrong\.onnx is not an ONNX model") as caught:
        await process.ready(60)
    assert caught.value.kind == "not_a_model"
    assert process.returncode == 1
    assert "is not an ONNX model" in (sockets / "log").read_text()


async def test_an_unknown_target_and_a_missing_file_are_told(sockets: Path, tmp_path: Path) -> None:
    model = tiny_models.classifier(tmp_path / "c.onnx")
    for order, kind in (
        (EngineOrder(model, "abacus.cpu", sockets / "s"), "unknown_target"),
        (EngineOrder(tmp_path / "none", "ort.cpu", sockets / "s"), "FileNotFoundError"),
    ):
        process = await EngineProcess.spawn(order)
        with pytest.raises(EngineStartFailed) as caught:
            await process.ready(60)
        assert caught.value.kind == kind


async def test_a_process_that_dies_while_it_loads_shows_the_end_of_its_log(
    sockets: Path, tmp_path: Path
) -> None:
    log = sockets / "log"
    log.write_text("the last words\n")
    model = tiny_models.slow(tmp_path / "s.onnx", work=100_000)
    process = await EngineProcess.spawn(EngineOrder(model, "ort.cpu", sockets / "s", warm_rows=1, log=log))
    waiting = asyncio.ensure_future(process.ready(60))
    await asyncio.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(EngineStartFailed, match=r"(?s)ended with -9.*the last words"):
        await waiting


async def test_a_load_that_takes_too_long_is_ended(sockets: Path, tmp_path: Path) -> None:
    model = tiny_models.slow(tmp_path / "s.onnx", work=100_000)
    process = await EngineProcess.spawn(EngineOrder(model, "ort.cpu", sockets / "s", warm_rows=1))
    with pytest.raises(EngineStartFailed, match=r"not ready within 0\.5 s"):
        await process.ready(0.5)
    assert not process.running


async def test_sigterm_lets_the_present_run_end(start: Start, connect: Connect, tmp_path: Path) -> None:
    process = await start(tiny_models.slow(tmp_path / "s.onnx", work=500))
    client = await connect(process)
    running, waiting = client.submit(ROW), client.submit(ROW)
    await asyncio.sleep(0.05)
    assert await process.stop(grace=60) == 0
    np.testing.assert_allclose((await running).outputs["y"], ROW["x"])
    with pytest.raises(EngineLost):
        await waiting


async def test_a_run_that_hangs_is_killed_after_the_grace(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    process = await start(tiny_models.slow(tmp_path / "s.onnx", work=1_000_000))
    client = await connect(process)
    running = client.submit(ROW)
    await asyncio.sleep(0.05)
    assert await process.stop(grace=0.1) == -signal.SIGKILL
    with pytest.raises(EngineLost):
        await running
    assert await client.lost


async def test_a_killed_process_is_noticed_at_once_and_can_be_replaced(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    model = tiny_models.classifier(tmp_path / "c.onnx")
    process = await start(model)
    client = await connect(process)
    await client.infer(ROW)
    assert await process.kill() == -signal.SIGKILL
    async with asyncio.timeout(60):
        await client.lost
    again = await EngineProcess.spawn(EngineOrder(model, "ort.cpu", process.order.socket))
    await again.ready(60)
    fresh = await connect(again)
    assert (await fresh.infer(ROW)).outputs["scores"].shape == (1, 3)
    await again.stop()


PARENT = """
import asyncio, sys
from pathlib import Path
from serving.engine.launch import EngineOrder, EngineProcess

async def main():
    model, listen = Path(sys.argv[1]), Path(sys.argv[2])
    order = EngineOrder(model, "ort.cpu", listen, log=listen.with_suffix(".log"))
    process = await EngineProcess.spawn(order)
    await process.ready()
    print(process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("work", [1, 1_000_000])
async def test_it_dies_with_its_parent_even_during_a_run(sockets: Path, tmp_path: Path, work: int) -> None:
    model = tiny_models.slow(tmp_path / "s.onnx", work=work)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(model), str(sockets / "s"), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    client = await EngineClient.connect(sockets / "s")
    running = client.submit(ROW)
    await asyncio.sleep(0.1)
    parent.kill()
    await parent.wait()
    ended = await gone(pid)
    client.close()
    await asyncio.gather(running, return_exceptions=True)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended


async def test_it_ends_when_the_control_socket_closes(sockets: Path, tmp_path: Path) -> None:
    model = tiny_models.classifier(tmp_path / "c.onnx")
    ours, theirs = socket.socketpair()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "serving.engine",
        f"--engine={model}",
        f"--socket={sockets / 's'}",
        "--target=ort.cpu",
        f"--control-fd={theirs.fileno()}",
        pass_fds=(theirs.fileno(),),
    )
    theirs.close()
    ours.settimeout(60)
    said = b""
    while b'{"ready"' not in said:
        said += await asyncio.to_thread(ours.recv, 65536)
    ours.close()
    try:
        async with asyncio.timeout(60):
            assert await child.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
