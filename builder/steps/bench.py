"""bench: engine and source alternately in one process, so that whatever else the machine does meets both."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builder.data.prepare import FILES, files_of, preprocess
from builder.data.samples import Sample, read_samples, shapes, stack
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import BenchPoint, BenchReport
from registry.contract.identity import TargetName
from registry.contract.pipeline import PipelineSpec
from registry.contract.versions import Signature
from registry.contract.wire import Wire
from serving.pipeline.errors import IllegalAnswer
from serving.pipeline.files import Files
from serving.pipeline.processing import post
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.loading import open_engine
from serving.runtimes.protocol import LoadedEngine, LoadOptions, Tensors

BATCHES = (1, 2, 4, 8, 16, 32)
PROVIDERS = {
    "ort.cpu": "CPUExecutionProvider",
    "ort.cuda": "CUDAExecutionProvider",
    "ort.tensorrt": "TensorrtExecutionProvider",
    "openvino.cpu": "CPU",
    "torch.cpu": "CPU",
    "torchscript.cpu": "CPU",
    "tensorrt": "TensorRT",
}
MIB = 1 << 20
# Pairs × (source, engine).
Seconds = npt.NDArray[np.float64]


class BenchParameters(Wire):
    """`budget_s` per batch size, with at least `least` runs of each engine however long they take (two for
    batches of several rows, where every run is an average already).

    `source_target`: what the source is loaded for; None: the engine's own target.
    """

    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    max_rows: int
    threads: int = 1
    least: int = 4
    most: int = 60
    budget_s: float = 0.8
    source_target: TargetName | None = None


class BenchResult(StepResult):
    report: BenchReport


def run(parameters: BenchParameters, inputs: Inputs, out: Path) -> BenchResult:
    samples = read_samples(inputs["sample"])
    first = [one for one in samples if shapes(one.tensors) == shapes(samples[0].tensors)]
    sizes = [size for size in BATCHES if size <= parameters.max_rows]
    options = LoadOptions(threads=parameters.threads)
    try:
        engine, times, _ = open_engine(
            inputs["engine"], parameters.target, options, warm_rows=sizes[-1], example=first[0].tensors
        )
        check_provider(parameters.target, engine.provider_that_ran)
        memory = max(engine.memory().engine, inputs["engine"].stat().st_size)
        source, _, _ = open_engine(
            inputs["source"],
            parameters.source_target or parameters.target,
            options,
            warm_rows=sizes[-1],
            example=first[0].tensors,
        )
    except RuntimeFault as error:
        raise Refused(f"it can't be measured: {error}") from error
    taken = [_alternate(source, engine, _batch(first, size), parameters) for size in sizes]
    pre_ms, post_ms = _around(parameters, first, engine, files_of(parameters.pipeline, inputs))
    report = BenchReport(
        provider=engine.provider_that_ran,
        threads=parameters.threads,
        points=tuple(_point(size, pairs[:, 1]) for size, pairs in zip(sizes, taken, strict=True)),
        source_points=tuple(_point(size, pairs[:, 0]) for size, pairs in zip(sizes, taken, strict=True)),
        speed_ratio=speed_ratio(taken[0]),
        size_bytes=inputs["engine"].stat().st_size,
        source_size_bytes=inputs["source"].stat().st_size,
        size_ratio=inputs["engine"].stat().st_size / inputs["source"].stat().st_size,
        load_ms=times.milliseconds(),
        memory_bytes=memory,
        pre_ms=pre_ms,
        post_ms=post_ms,
    )
    return BenchResult(says=_sentence(report), report=report)


def _sentence(report: BenchReport) -> str:
    one = report.points[0]
    return (
        f"×{report.speed_ratio:.2f} the source's speed: p50 {one.p50_ms:.2f} ms, p99 {one.p99_ms:.2f} ms at "
        "one row "
        f"on {report.provider}; {report.size_ratio:.0%} of the size, {report.memory_bytes / MIB:.0f} MiB of "
        "memory"
    )


def check_provider(target: str, ran: str) -> None:
    """Raises Refused when another provider than the target's did the work."""
    wanted = next((provider for prefix, provider in PROVIDERS.items() if target.startswith(prefix)), None)
    if wanted != ran:
        raise Refused(f"{target} was asked for, and {ran} did the work; check the driver and its libraries")


def _batch(samples: Sequence[Sample], size: int) -> Tensors:
    return stack([samples[at % len(samples)].tensors for at in range(size)])


def _alternate(
    source: LoadedEngine, engine: LoadedEngine, batch: Tensors, parameters: BenchParameters
) -> Seconds:
    """Pairs of one run of each. Now one goes first, now the other, so that neither has the better place."""
    pairs: list[tuple[float, float]] = []
    rows = len(next(iter(batch.values())))
    least = parameters.least if rows == 1 else min(2, parameters.least)
    began = time.perf_counter()
    while len(pairs) < parameters.most:
        if len(pairs) >= least and time.perf_counter() - began > parameters.budget_s:
            break
        if len(pairs) % 2:
            of_engine, of_source = _seconds(engine, batch), _seconds(source, batch)
        else:
            of_source, of_engine = _seconds(source, batch), _seconds(engine, batch)
        pairs.append((of_source, of_engine))
    return np.array(pairs)


def speed_ratio(pairs: Seconds) -> float:
    """Of the engine to the source: the median of each pair's own ratio."""
    return float(np.median(pairs[:, 0] / pairs[:, 1]))


def _seconds(loaded: LoadedEngine, batch: Tensors) -> float:
    started = time.perf_counter()
    loaded.infer(batch)
    return time.perf_counter() - started


def _point(rows: int, seconds: Seconds) -> BenchPoint:
    p50, p99 = np.percentile(seconds, (50, 99))
    return BenchPoint(rows=rows, p50_ms=p50 * 1e3, p99_ms=p99 * 1e3, rows_per_s=rows / p50)


def _around(
    parameters: BenchParameters, samples: Sequence[Sample], engine: LoadedEngine, files: Files
) -> tuple[float | None, float | None]:
    """Milliseconds of pre- and post-processing of one row; None where there is nothing to measure them on."""
    raw = next((sample.raw for sample in samples if sample.raw is not None), None)
    pre_ms = None
    if raw is not None:
        process = preprocess(parameters.pipeline, parameters.signature, files)
        pre_ms = _median_ms(lambda: process(raw))
    answer = post(parameters.pipeline, parameters.signature, files)
    outputs = engine.infer(samples[0].tensors)
    rows = len(next(iter(samples[0].tensors.values())))
    try:
        return pre_ms, _median_ms(lambda: answer(outputs, rows))
    except IllegalAnswer:
        return pre_ms, None


def _median_ms(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(30):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken)) * 1e3


STEP = Step(
    name="bench",
    revision=4,
    requires=("source", "engine", "sample"),
    accepts=(FILES,),
    outputs=(),
    parameters=BenchParameters,
    result=BenchResult,
    run=run,
)
