"""A whole service as people start it: `slipway up` in a directory of its own, and its command line."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from registry.contract.deployments import PlanStep, Policy
from registry.contract.pipeline import Classify, JsonTensors, PipelineSpec
from registry.contract.versions import (
    BatchRule,
    Dtype,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)
from slipway.credentials import Credentials, load

START_S = 120


@dataclass(frozen=True)
class Place:
    """`folder` is where a person stands. `process` is `slipway up`."""

    folder: Path
    process: subprocess.Popen[bytes]
    credentials: Credentials

    def slipway(self, *arguments: str, code: int = 0) -> str:
        """Runs a command line; its stdout."""
        done = subprocess.run(
            [sys.executable, "-c", "from slipway.cli import main; main()", *arguments],
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _environment() -> dict[str, str]:
    hidden = ("SLIPWAY_", "DATABASE_URL", "REDIS_URL", "S3_ENDPOINT_URL", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}


def write_model(path: Path, weight: float = 1.0) -> Path:
    """scores = softmax(x · weight): FP32[n, 3] → FP32[n, 3]."""
    nodes = [
        helper.make_node("Mul", ["x", "weight"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["scores"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor("weight", TensorProto.FLOAT, [1], [weight])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("n", 3)),),
        outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("n", 3)),),
    ),
    pipeline=PipelineSpec(
        pre=(JsonTensors(),), post=(Classify(output="scores", labels=("cat", "dog", "fox")),)
    ),
    observables=(
        Observable(name="label", kind="class", source="label", labels=("cat", "dog", "fox")),
        Observable(name="score", kind="score", source="score"),
    ),
    batch=BatchRule(max_rows=8),
)
POLICY = Policy(
    plan=(PlanStep(share=5_000, dwell_s=0), PlanStep(share=10_000, dwell_s=0)),
    auto_advance=False,
    allow_unproven=True,
)


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    # Not pytest's own temporary directory: under root that is closed to the user who runs PostgreSQL.
    with tempfile.TemporaryDirectory(prefix="slipway-acceptance-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        write_model(folder / "model.onnx")
        (folder / "contract.json").write_text(CONTRACT.model_dump_json())
        (folder / "policy.json").write_text(POLICY.model_dump_json())
        process = subprocess.Popen(
            [sys.executable, "-c", "from slipway.cli import main; main()", "up", "--port", "0"],
            cwd=folder,
            env=_environment(),
            stderr=subprocess.PIPE,
        )
        try:
            yield Place(folder, process, _ready(process, folder))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def _ready(process: subprocess.Popen[bytes], folder: Path) -> Credentials:
    assert process.stderr is not None
    deadline = time.monotonic() + START_S
    told = ""
    while "Slipway runs." not in told:
        line = process.stderr.readline().decode()
        told += line
        assert line and time.monotonic() < deadline, f"slipway up did not come up:\n{told}"
    return load(folder / ".slipway" / "credentials.json")


def answer(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found
