"""The conformance suite in the environments of the other runtimes, behind walls where those want it."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from builder.isolation import sandbox
from tests import environments

SUITE = environments.ROOT / "tests" / "serving" / "runtimes" / "test_conformance.py"
LEAST_TESTS = 25
# The first one here may have to make an environment.
pytestmark = pytest.mark.timeout(1200)


def suite(python: Path, target: str, room: Path) -> list[str]:
    words = [str(python), "-P", "-m", "pytest", str(SUITE), "-q", "-k", f"[{target}", "--noconftest"]
    words += ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(environments.ROOT / "pyproject.toml")]
    return [*words, "--rootdir", str(environments.ROOT), "--basetemp", str(room / "pytest")]


def passes(command: Sequence[str], room: Path, least: int = LEAST_TESTS) -> None:
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=environments.ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(room), "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None and int(passed[1]) >= least, ended.stdout[-2000:]


def test_openvino_conforms(tmp_path: Path) -> None:
    passes(suite(environments.worker("openvino").python, "openvino.cpu", tmp_path), tmp_path)


def test_torch_and_torchscript_conform_behind_walls(tmp_path: Path) -> None:
    made = environments.worker("torch")
    read = (made.folder, environments.ROOT / "tests", environments.ROOT / "pyproject.toml")
    walls = sandbox.prefix(read, tmp_path, os.getpid())
    passes([*walls, *suite(made.python, "torch", tmp_path)], tmp_path, 2 * LEAST_TESTS)
