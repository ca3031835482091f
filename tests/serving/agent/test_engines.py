"""The supervisor over real engine processes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from registry.contract.nodes import AssignedArm, SlotPhase
from registry.contract.routes import ArmRole
from serving.agent.engines import Engines
from serving.agent.snapshot import Slot, SlotKey
from serving.agent.state import StateDirectory
from serving.engine.client import EngineClient
from tests.serving.agent.making import arm, digest_of, engine
from tests.serving.tiny_models import classifier

KEY = SlotKey("prod/m", arm(1).arm)


class Bench:
    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.news = asyncio.Event()
        self.bad: dict[str, str] = {}
        self.damaged: list[str] = []
        self.phases: list[SlotPhase] = []
        self.engines = Engines(state, 1, self._changed, self._bad, self._damaged)

    def _changed(self) -> None:
        slot = self.engines.slots().get(KEY)
        if slot is not None and slot.phase not in self.phases[-1:]:
            self.phases.append(slot.phase)
        self.news.set()

    def _bad(self, digest: str, reason: str) -> None:
        self.bad[digest] = reason
        self.news.set()

    def _damaged(self, digest: str) -> None:
        self.damaged.append(digest)
        self.news.set()

    def store(self, content: bytes) -> AssignedArm:
        digest = digest_of(content)
        path = self.state.engine(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return arm(1, ArmRole.STABLE, 0, engine(1).model_copy(update={"digest": digest}))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self.news.clear()
                await self.news.wait()

    @property
    def slot(self) -> Slot | None:
        return self.engines.slots().get(KEY)

    def is_in(self, phase: SlotPhase) -> bool:
        return self.slot is not None and self.slot.phase is phase


@pytest.fixture
async def bench(state: StateDirectory) -> AsyncIterator[Bench]:
    bench = Bench(state)
    yield bench
    await bench.engines.close(5)


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    return classifier(tmp_path / "model.onnx").read_bytes()


async def pid_of(slot: Slot | None) -> int:
    assert slot is not None and slot.socket is not None
    client = await EngineClient.connect(slot.socket)
    try:
        return (await client.info()).pid
    finally:
        client.close()


async def test_an_engine_is_verified_loaded_warmed_and_answers(bench: Bench, model: bytes) -> None:
    bench.engines.start(KEY, bench.store(model))
    await bench.until(lambda: bench.is_in(SlotPhase.READY))
    assert bench.phases == [SlotPhase.LOADING, SlotPhase.WARMING, SlotPhase.READY]
    slot = bench.slot
    assert slot is not None and slot.socket is not None and slot.load_ms["warm_up"] > 0
    client = await EngineClient.connect(slot.socket)
    answer = await client.infer({"x": np.eye(4, dtype=np.float32)[:1]})
    assert answer.outputs["scores"].argmax() == 0
    client.close()
    bench.engines.stop(KEY, "test")
    await bench.until(lambda: bench.slot is None)


async def test_a_killed_engine_is_failed_with_its_signal_and_can_be_started_again(
    bench: Bench, model: bytes
) -> None:
    stored = bench.store(model)
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bench.is_in(SlotPhase.READY))
    first = await pid_of(bench.slot)
    os.kill(first, signal.SIGKILL)
    await bench.until(lambda: bench.is_in(SlotPhase.FAILED))
    slot = bench.slot
    assert slot is not None and "signal 9" in slot.reason and slot.retry_at is not None
    assert slot.socket is None and not bench.bad
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bench.is_in(SlotPhase.READY))
    assert await pid_of(bench.slot) != first


async def test_an_engine_that_hangs_is_replaced(bench: Bench, model: bytes) -> None:
    bench.engines.start(KEY, bench.store(model))
    await bench.until(lambda: bench.is_in(SlotPhase.READY))
    os.kill(await pid_of(bench.slot), signal.SIGSTOP)
    bench.engines.replace(KEY, "a run passed its limit")
    await bench.until(lambda: bench.is_in(SlotPhase.FAILED))
    assert bench.slot is not None and "a run passed its limit" in bench.slot.reason


async def test_a_file_that_is_no_model_is_bad(bench: Bench) -> None:
    stored = bench.store(b"not a model")
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bool(bench.bad))
    assert stored.engine is not None and stored.engine.digest in bench.bad
    assert bench.slot is None


async def test_bytes_that_changed_on_disk_are_never_loaded(bench: Bench, model: bytes) -> None:
    stored = bench.store(model)
    assert stored.engine is not None
    bench.state.engine(stored.engine.digest).write_bytes(model + b"x")
    bench.engines.start(KEY, stored)
    await bench.until(lambda: bool(bench.damaged))
    assert bench.damaged == [stored.engine.digest]
    assert bench.slot is None and not bench.bad


async def test_a_load_can_be_stopped(bench: Bench, model: bytes) -> None:
    bench.engines.start(KEY, bench.store(model))
    await bench.until(lambda: bench.is_in(SlotPhase.LOADING))
    bench.engines.stop(KEY, "not wanted any more")
    await bench.until(lambda: bench.slot is None)
    assert not bench.bad
