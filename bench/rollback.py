"""From the call to the last node's *switched* and *drained*, over real nodes under load."""

import statistics
import tempfile
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from registry.client import deployments
from registry.contract.deployments import DeploymentCreate, PlanStep, Policy
from registry.contract.pipeline import ByteWindow, PipelineSpec, Tensors
from registry.contract.recipes import Precision, Recipe
from registry.contract.releases import ReleasePhase
from registry.contract.versions import BatchRule, Dtype, Signature, TensorSpec, VersionContract
from slipway.client import Client
from slipway.demo.service import service
from slipway.demo.traffic import load

ROLLBACKS = 20
NODES = 2
RATE = 60.0
REF = "prod/echo"


def _model(path: Path, shift: float) -> Path:
    """y = x·1 + shift over 16 bytes."""
    node = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "shift"], ["y"]),
    ]
    graph = helper.make_graph(
        node,
        "echo",
        [helper.make_tensor_value_info("x", TensorProto.INT32, ["n", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor("shift", TensorProto.FLOAT, [1], [shift])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def _contract() -> VersionContract:
    window = ByteWindow(output="x", head=16, tail=0, block=64, pad=0)
    return VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="x", dtype=Dtype.INT32, shape=("n", 16)),),
            outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("n", 16)),),
        ),
        pipeline=PipelineSpec(pre=(window,), post=(Tensors(),)),
        batch=BatchRule(max_rows=8),
    )


def _released(client: Client, version: str) -> None:
    release = client.promote(version, REF)
    release = client.wait_release(REF, release.number, lambda r: r.phase is not ReleasePhase.PREPARING, 60)
    while release.phase is ReleasePhase.RUNNING:
        release = client.advance(REF, release.number)
    client.wait_release(REF, release.number, lambda r: r.phase is ReleasePhase.COMPLETED, 60)


def _figures(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": statistics.median(values), "p99": cuts[98], "max": max(values)}


def run(output: str) -> dict[str, object]:
    """Milliseconds by the registry's arrival clock, and what clients saw meanwhile."""
    switched, drained = [], []
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        with service(home / "service", print if output == "table" else lambda _: None, NODES) as running:
            client = running.client
            for number in (1, 2):
                model = _model(home / f"{number}.onnx", float(number))
                client.register("echo", {"model.onnx": model}, _contract())
                client.build(f"echo@{number}", Recipe(precisions=(Precision.FP32,)), wait=300)
            plan = (PlanStep(share=5_000, dwell_s=0), PlanStep(share=10_000, dwell_s=0))
            policy = Policy(plan=plan, auto_advance=False, allow_unproven=True, mirror=0)
            client.call(
                deployments.create(
                    DeploymentCreate(environment="prod", name="echo", model="echo", policy=policy)
                )
            )
            _released(client, "echo@1")
            inputs = home / "inputs"
            inputs.mkdir()
            for at in range(50):
                (inputs / f"{at}").write_bytes(bytes([at] * 32))
            token = running.home / "admin-token"
            with load(inputs, running.credentials.url, REF, token, home, RATE, 1) as traffic:
                for _ in range(ROLLBACKS):
                    _released(client, "echo@2")
                    receipt = client.rollback(REF, wait=30)
                    switched.append(max(node.switched_ms or float("inf") for node in receipt.nodes))
                    drained.append(max(node.drained_ms or float("inf") for node in receipt.nodes))
                    client.call(deployments.unpin(REF))
                    time.sleep(0.2)
                journal = traffic.stop()
    figures: dict[str, object] = {
        "nodes": NODES,
        "rollbacks": ROLLBACKS,
        "switched_ms": _figures(switched),
        "drained_ms": _figures(drained),
        "requests": len(journal.attempts),
        "failed": len(journal.failed),
    }
    if output == "table":
        for name, value in figures.items():
            print(f"{name:<14} {value}")
    return figures
