"""Real engine processes of tiny models, shared by the tests of this folder."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from serving.engine.errors import EngineError
from serving.engine.sync_client import SyncEngineClient
from tests.serving import tiny_models
from tests.serving.gateway.rig import Rig, gateway


@dataclass
class EngineRun:
    """One engine process. `kill` is a test's to call on engines of its own."""

    socket: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def hold(self) -> None:
        """Whatever runs or comes now stays unanswered until `release`."""
        self.process.send_signal(signal.SIGSTOP)

    def release(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@dataclass
class Engines:
    """Starts an engine process of a model file and waits until it answers."""

    folder: Path
    running: list[EngineRun] = field(default_factory=list)

    def start(self, model: Path) -> EngineRun:
        socket = self.folder / f"{len(self.running)}.sock"
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "serving.engine", f"--socket={socket}", f"--engine={model}"),
                "--target=ort.cpu",
            ]
        )
        run = EngineRun(str(socket), process)
        self.running.append(run)
        _wait(socket)
        return run

    def stop(self) -> None:
        for run in self.running:
            run.release()
            run.kill()


def _wait(socket: Path) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            with SyncEngineClient(socket) as client:
                client.ping()
            return
        except EngineError:
            assert time.monotonic() < until, "the engine process didn't come up"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def models() -> Iterator[Path]:
    """A folder with a short path: unix sockets lie in it too."""
    with tempfile.TemporaryDirectory(prefix="eng-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def engines(models: Path) -> Iterator[Engines]:
    engines = Engines(models)
    yield engines
    engines.stop()


def _shared(engines: Engines, name: str, make: Callable[[Path], Path]) -> str:
    return engines.start(make(engines.folder / f"{name}.onnx")).socket


@pytest.fixture(scope="session")
def classifier(engines: Engines) -> str:
    """The socket of an engine of `tiny_models.classifier`."""
    return _shared(engines, "classifier", tiny_models.classifier)


@pytest.fixture(scope="session")
def adder(engines: Engines) -> str:
    return _shared(engines, "adder", tiny_models.adder)


@pytest.fixture(scope="session")
def failing(engines: Engines) -> str:
    """Runs with an index outside of [-8, 8) fail."""
    return _shared(engines, "failing", tiny_models.failing_on_value)


@pytest.fixture(scope="session")
def _copier(engines: Engines) -> EngineRun:
    return engines.start(tiny_models.slow(engines.folder / "copier.onnx", 1))


@pytest.fixture
def holdable(_copier: EngineRun) -> Iterator[EngineRun]:
    """An engine (x FP32[batch, 4] → y = x) that this test may hold; it is released behind it."""
    yield _copier
    _copier.release()


@pytest.fixture(scope="session")
def copier(engines: Engines) -> str:
    """Another engine of the same kind, never held."""
    return _shared(engines, "quick", lambda path: tiny_models.slow(path, 1))


@pytest.fixture(scope="session")
def window_engine(engines: Engines) -> str:
    return _shared(engines, "window", tiny_models.byte_window_classifier)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with gateway() as rig:
        yield rig
