"""What the capacity model says of one node, beside a load test of that node on this machine.

The engine is benched alone, as builds bench it; the model says the highest rate at which P99 stays within a
limit; then an open-loop client looks for that rate on a real node (gateway, engine process). `error` is
predicted / measured − 1; `error_with_measured_access` is what it would be had the model known what this
machine's gateway takes for a request (`access_ms_measured`), and not taken `access_ms_assumed`.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import orjson
from onnx import TensorProto, helper, numpy_helper

from bench.figures import table
from bench.serving import cpu_s, gateway
from registry.capacity import planning, queueing
from registry.capacity.queueing import NodeModel, Point
from registry.contract.counters import BATCH_BUCKETS
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec, VersionContract
from serving.engine.launch import EngineOrder, EngineProcess
from serving.runtimes.loading import open_engine
from serving.runtimes.protocol import LoadOptions

WIDTH, LAYERS = 256, 96
RUNS = 80
# Of the limit and of a lone run's median.
LIMIT_RATIO = 8
SECONDS = 6.0
LADDER = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)

CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 8)),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 8)),),
    ),
    pipeline=PipelineSpec(),
)


def run(output: str = "table") -> dict[str, float]:
    """Measures and returns the figures; prints them as a `table`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures = asyncio.run(_measure(Path(folder)))
    if output == "table":
        table(figures)
    return figures


async def _measure(folder: Path) -> dict[str, float]:
    path = model(folder / "model.onnx")
    engine = await EngineProcess.spawn(EngineOrder(path, "ort.cpu", folder / "engine.sock", warm_rows=32))
    try:
        await engine.ready()
        async with gateway(folder, engine.order.socket, CONTRACT) as (port, pid):
            await _load(port, 20, 1.0)
            node = benched(path)
            limit_s = LIMIT_RATIO * node.points[0].p50_s
            most = queueing.most_within(node, limit_s)
            assert most is not None, "the limit is some lone runs long"
            before = cpu_s(pid)
            steps = [await _load(port, most.rate * part, SECONDS) for part in LADDER]
            access_s = (cpu_s(pid) - before) / sum(step["requests"] for step in steps)
    finally:
        await engine.stop()
    informed = queueing.most_within(NodeModel(node.points, access_s), limit_s)
    measured = _crossing([(step["rate"], step["p99_ms"]) for step in steps], limit_s * 1e3)
    return {
        "limit_p99_ms": limit_s * 1e3,
        "predicted_requests_per_second": most.rate,
        "measured_requests_per_second": measured,
        "error": most.rate / measured - 1,
        "error_with_measured_access": informed.rate / measured - 1 if informed else -1.0,
        "access_ms_assumed": planning.ACCESS_MS,
        "access_ms_measured": access_s * 1e3,
        "predicted_batch_rows": most.batch_rows,
        "ceiling_requests_per_second": node.ceiling,
        "failed": sum(step["failed"] for step in steps),
        **{f"p50_ms_of_{point.rows}": point.p50_s * 1e3 for point in node.points},
        **{f"p99_ms_at_{part:g}": step["p99_ms"] for part, step in zip(LADDER, steps, strict=True)},
    }


def _crossing(steps: list[tuple[float, float]], limit_ms: float) -> float:
    """The rate at which P99 passes the limit, between the last step within it and the next one."""
    within = [at for at, (_, p99) in enumerate(steps) if p99 <= limit_ms]
    if not within:
        return steps[0][0] * limit_ms / steps[0][1]
    last = within[-1]
    if last == len(steps) - 1:
        return steps[last][0]
    (low, before), (high, after) = steps[last], steps[last + 1]
    return low + (high - low) * (limit_ms - before) / (after - before)


def benched(path: Path) -> NodeModel:
    """As the bench step of a build measures it: runs of each batch size, in this process."""
    engine, _, _ = open_engine(path, "ort.cpu", LoadOptions(threads=1), warm_rows=32)
    points = []
    for rows in BATCH_BUCKETS:
        inputs = {"x": np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)}
        taken = []
        for _ in range(RUNS):
            started = time.perf_counter()
            engine.infer(inputs)
            taken.append(time.perf_counter() - started)
        p50, p99 = np.percentile(taken, (50, 99))
        points.append(Point(rows, float(p50), float(p99)))
    engine.close()
    return NodeModel(tuple(points), planning.ACCESS_MS / 1e3)


async def _load(port: int, rate: float, seconds: float) -> dict[str, float]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [0.5] * 8}
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.open_loop", str(port), "/v2/models/lstm/infer"),
        *(str(rate), str(seconds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await client.communicate(orjson.dumps({"inputs": [tensor]}))
    tally: dict[str, float] = orjson.loads(answer)
    return tally


def model(path: Path) -> Path:
    """`x` FP32[batch, 8] → `y` FP32[batch, 8]: many layers, so that a run takes milliseconds."""
    rng = np.random.default_rng(5)
    sizes = [8, *[WIDTH] * LAYERS, 8]
    nodes, weights, name = [], [], "x"
    for at, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        values = (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{at}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{at}"], [f"m{at}"]))
        name = "y" if at == LAYERS else f"a{at}"
        nodes.append(helper.make_node("Tanh", [f"m{at}"], [name]))
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made)
    path.write_bytes(made.SerializeToString())
    return path
