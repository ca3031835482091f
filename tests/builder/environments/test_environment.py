"""Worker environments: which there are, where they lie, and what is in them."""

import os
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from builder.builds import facts
from builder.environments import environment
from builder.environments.environment import UnknownEnvironment
from builder.environments.make import EnvironmentFailed, refuse_cuda
from tests import environments

# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


def test_there_is_one_for_each_lock() -> None:
    assert {"openvino", "tensorflow", "tensorrt-rtx", "torch", "trees"} <= set(environment.names())
    assert "torch.pinned" not in environment.names()


def test_an_unknown_one_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UnknownEnvironment, match=r"'caffe'; there are .*torch"):
        environment.folder_of("caffe")


def test_locks_are_hashed_and_hold_no_address() -> None:
    for name in environment.names():
        lock, *pinned = environment.requirement_files(name)
        lines = lock.read_text().splitlines()
        assert not [line for line in lines if "://" in line]
        named = [line for line in lines if "==" in line.split(" --hash")[0] and not line.startswith(" ")]
        assert named
        assert all(line.endswith("\\") for line in named)
        assert [path.read_text().strip() for path in pinned] == (["torch==2.13.0"] if name == "torch" else [])


def test_another_cache_is_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path))
    assert environment.folder_of("trees").parent == tmp_path / "environments"
    assert environment.find("trees") is None


def test_it_holds_the_framework_alone_over_the_base_environment() -> None:
    made = environments.worker("trees")
    own = {path.name for path in environment.site_of(made.folder).iterdir()}
    assert "lightgbm" in own
    assert not {"numpy", "onnx", "onnxruntime", "pydantic"} & own
    code = "import sys, numpy, lightgbm, builder; print(numpy.__version__, lightgbm.__version__, sys.prefix)"
    ended = subprocess.run(
        [str(made.python), "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert ended.stdout.split() == [metadata.version("numpy"), "4.7.0", str(made.folder)]


def test_its_versions_are_part_of_what_a_result_depends_on() -> None:
    environments.worker("trees")
    tools = facts.tools("trees")
    assert tools["lightgbm"] == "4.7.0"
    assert tools["skl2onnx"] == "1.20.0"
    assert tools["onnxruntime"] == metadata.version("onnxruntime")
    assert "lightgbm" not in facts.tools()


@pytest.mark.parametrize("cuda", ["'13.0'", "None", "missing"])
def test_a_cuda_build_of_torch_is_refused_and_removed(tmp_path: Path, cuda: str) -> None:
    folder = tmp_path / "torch-0"
    package = environment.site_of(folder) / "torch"
    package.mkdir(parents=True)
    if cuda != "missing":
        (package / "version.py").write_text(f"__version__ = '2.13.0'\ncuda: str | None = {cuda}\n")
    if cuda == "None":
        refuse_cuda(folder)
        assert package.is_dir()
        return
    with pytest.raises(EnvironmentFailed, match=r"CUDA build of torch.*PIP_FIND_LINKS"):
        refuse_cuda(folder)
    assert not folder.exists()


def test_the_torch_environment_holds_the_cpu_build() -> None:
    version = environment.site_of(environments.worker("torch").folder) / "torch" / "version.py"
    assert runpy.run_path(str(version))["cuda"] is None


def test_the_command_that_makes_one_names_what_there_is(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "builder.environments", "caffe"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "SLIPWAY_CACHE": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert "there is no worker environment 'caffe'" in ended.stderr
