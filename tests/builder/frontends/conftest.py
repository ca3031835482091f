"""Each framework's models are made and imported once, in its own environment, by one process."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import assets, environments
from tests.builder.frontends.inside.cases import Case, read_cases

SILERO = "silero-vad==6.2.3"
BASIC_PITCH = "basic-pitch==0.4.0"
LIMIT_S = 600


def run_inside(environment: str, home: Path, *arguments: Path) -> None:
    python = environments.worker(environment).python
    command = [str(python), "-m", f"tests.builder.frontends.inside.{environment}", str(home)]
    ended = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env={
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "OMP_NUM_THREADS": "1",
        },
        cwd=environments.ROOT,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]


@pytest.fixture(scope="session")
def torch_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("torch")
    silero = []
    for name in ("silero_vad.jit", "silero_vad.onnx"):
        (home / name).write_bytes(assets.member(SILERO, f"silero_vad/data/{name}"))
        silero.append(home / name)
    run_inside("torch", home, *silero)
    return home


@pytest.fixture(scope="session")
def torch_cases(torch_home: Path) -> dict[str, Case]:
    return read_cases(torch_home)


@pytest.fixture(scope="session")
def tensorflow_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    home = tmp_path_factory.mktemp("tensorflow")
    folder = assets.lay_out(BASIC_PITCH, "basic_pitch/saved_models/icassp_2022/", home / "pitch")
    run_inside("tensorflow", home, folder)
    return read_cases(home)


@pytest.fixture(scope="session")
def trees_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trees")
    run_inside("trees", home)
    return home
