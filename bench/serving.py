"""Requests a second of one node at 32 connections, beside the same engine called in this process with the
batch sizes that the node really ran.

The model is an LSTM text classifier of 32 tokens. Gateway worker, engine process and load client are
processes of their own; all share the machine's cores.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import onnx
import orjson
from onnx import TensorProto, helper, numpy_helper

from bench.figures import table
from registry.contract.counters import BATCH_BUCKETS, CounterEdges
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.routes import ArmRole, Fence, RoutingUnit
from registry.contract.versions import Dtype, Signature, TensorSpec, VersionContract
from serving.control import ArmEntry, Table, TableEntry
from serving.engine.launch import EngineOrder, EngineProcess
from serving.runtimes.loading import open_engine
from serving.runtimes.protocol import LoadOptions
from serving.telemetry.counterfile import CounterSnapshot, find, read

TOKENS, WIDTH, HIDDEN, CLASSES = 32, 32, 64, 2
CONNECTIONS = 32
SECONDS = 10.0
ARM = "arm-" + "0" * 64

CONTRACT = VersionContract(
    signature=Signature(
        inputs=(TensorSpec(name="tokens", dtype=Dtype.INT64, shape=("batch", TOKENS)),),
        outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", CLASSES)),),
    ),
    pipeline=PipelineSpec(post=(Classify(output="scores", labels=("negative", "positive")),)),
)


def run(output: str = "table") -> dict[str, float]:
    """Measures and returns the figures; prints them as a `table`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures = asyncio.run(_measure(Path(folder)))
    if output == "table":
        table(figures)
    return figures


async def _measure(folder: Path) -> dict[str, float]:
    model = lstm(folder / "model.onnx")
    engine = await EngineProcess.spawn(EngineOrder(model, "ort.cpu", folder / "engine.sock", warm_rows=32))
    try:
        await engine.ready()
        async with gateway(folder, engine.order.socket, CONTRACT) as (port, pid):
            await _load(port, 1.0)
            before = _runs(folder), cpu_s(pid), cpu_s(engine.pid)
            tally = await _load(port, SECONDS)
            after = _runs(folder), cpu_s(pid), cpu_s(engine.pid)
    finally:
        await engine.stop()
    runs = {size: after[0][size] - before[0][size] for size in BATCH_BUCKETS}
    served = tally["requests"] / tally["seconds"]
    alone = _in_process(model, runs)
    return {
        "requests_per_second": served,
        "in_process_rows_per_second": alone,
        "ratio": served / alone,
        "failed": tally["failed"],
        "p50_ms": tally["p50_ms"],
        "p99_ms": tally["p99_ms"],
        "gateway_cpu_us_per_request": (after[1] - before[1]) / tally["requests"] * 1e6,
        "engine_cpu_us_per_request": (after[2] - before[2]) / tally["requests"] * 1e6,
        "mean_batch_rows": tally["requests"] / max(1, sum(runs.values())),
        **{f"runs_of_up_to_{size}": float(n) for size, n in runs.items()},
    }


def _in_process(model: Path, runs: dict[int, int]) -> float:
    """Rows a second of the engine alone, over the same mix of batch sizes (each bucket's largest)."""
    engine, _, _ = open_engine(model, "ort.cpu", LoadOptions(threads=1))
    batches = {size: {"tokens": _tokens(size)} for size in runs}
    for inputs in batches.values():
        engine.infer(inputs)
    scale = max(1, sum(runs.values()) // 2000)
    rows = 0
    begun = time.perf_counter()
    for size, n in runs.items():
        for _ in range(n // scale):
            engine.infer(batches[size])
            rows += size
    took = time.perf_counter() - begun
    engine.close()
    return rows / took


@asynccontextmanager
async def gateway(folder: Path, engine: Path, contract: VersionContract) -> AsyncIterator[tuple[int, int]]:
    """One gateway worker that serves the model `lstm` by this engine, with this process as its agent. Yields
    its port and process id."""
    lines: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    control = folder / "agent.sock"
    server = await asyncio.start_unix_server(lambda r, w: lines.put_nowait((r, w)), control)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "serving.gateway", "--worker=0", f"--control={control}"),
        *(f"--state={folder}", "--incarnation=bench", f"--parent={os.getpid()}"),
    )
    try:
        async with asyncio.timeout(30):
            reader, writer = await lines.get()
            hello = orjson.loads(await reader.readline())
            writer.write(_table(engine, contract).model_dump_json().encode() + b"\n")
            await reader.readline()
        yield hello["port"], process.pid
    finally:
        process.terminate()
        await process.wait()
        server.close()


def _table(engine: Path, contract: VersionContract) -> Table:
    arm = ArmEntry(
        arm=ARM,
        version="bench@1@fp32",
        role=ArmRole.STABLE,
        share=10_000,
        engine="sha256-" + "0" * 64,
        socket=str(engine),
        batchable=True,
        contract=contract,
    )
    entry = TableEntry(
        deployment="bench/lstm",
        model="bench",
        fence=Fence(registry_id="bench", timeline=1, generation=1),
        unit=RoutingUnit(),
        salt="bench",
        arms=(arm,),
        mirror=0,
        edges=CounterEdges(),
        drain_limit_s=5,
    )
    return Table(seq=1, registry_id="bench", entries=(entry,))


async def _load(port: int, seconds: float) -> dict[str, float]:
    tensor = {
        "name": "tokens",
        "datatype": "INT64",
        "shape": [1, TOKENS],
        "data": _tokens(1).ravel().tolist(),
    }
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.closed_loop", str(port), "/v2/models/lstm/infer"),
        *(str(CONNECTIONS), str(seconds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await client.communicate(orjson.dumps({"inputs": [tensor]}))
    tally: dict[str, float] = orjson.loads(answer)
    return tally


def _runs(folder: Path) -> dict[int, int]:
    snapshots: list[CounterSnapshot] = [one for path in find(folder) if (one := read(path)) is not None]
    return {
        size: sum(int(one.fields[f"engine_us.{size}"].sum()) for one in snapshots) for size in BATCH_BUCKETS
    }


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used, in its own code and in the kernel for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _tokens(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, 256, (rows, TOKENS), dtype=np.int64)


def lstm(path: Path) -> Path:
    """`tokens` INT64[batch, 32] → `scores` FP32[batch, 2]: embedding, one LSTM, softmax of its last state."""
    rng = np.random.default_rng(5)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.1, name)

    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["embedded"]),
        helper.make_node("Transpose", ["embedded"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["steps", "w", "r"], ["", "last", ""], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["last", "first_axis"], ["state"]),
        helper.make_node("MatMul", ["state", "head"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "lstm",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", TOKENS])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])],
        [
            weights("table", 256, WIDTH),
            weights("w", 1, 4 * HIDDEN, WIDTH),
            weights("r", 1, 4 * HIDDEN, HIDDEN),
            weights("head", HIDDEN, CLASSES),
            numpy_helper.from_array(np.array([0], dtype=np.int64), "first_axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path
