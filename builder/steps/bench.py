"""bench: engine and source alternately in one process, so that whatever else the machine does meets both."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from builder.prepare import FILES, files_of, preprocess
from builder.samples import Sample, read_samples, shapes, stack
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

BATCHES = (1, 4, 16)
PROVIDERS = {"ort.cpu": "CPUExecutionProvider", "ort.cuda": "CUDAExecutionProvider"}
MIB = 1 << 20


class BenchParameters(Wire):
    """`budget_s` per batch size, with at least `least` runs of each engine however long they take."""

    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    max_rows: int
    threads: int = 1
    least: int = 4
    most: int = 60
    budget_s: float = 1.5


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
            inputs["source"], parameters.target, options, warm_rows=sizes[-1], example=first[0].tensors
        )
    except RuntimeFault as error:
        raise Refused(f"it can't be measured: {error}") from error
    pairs = [_alternate(source, engine, _batch(first, size), size, parameters) for size in sizes]
    pre_ms, post_ms = _around(parameters, first, engine, files_of(parameters.pipeline, inputs))
    report = BenchReport(
        provider=engine.provider_that_ran,
        threads=parameters.threads,
        points=tuple(pair[1] for pair in pairs),
        source_points=tuple(pair[0] for pair in pairs),
        speed_ratio=pairs[0][0].p50_ms / pairs[0][1].p50_ms,
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
    source: LoadedEngine, engine: LoadedEngine, batch: Tensors, rows: int, parameters: BenchParameters
) -> tuple[BenchPoint, BenchPoint]:
    taken: tuple[list[float], list[float]] = ([], [])
    began = time.perf_counter()
    while len(taken[0]) < parameters.most:
        if len(taken[0]) >= parameters.least and time.perf_counter() - began > parameters.budget_s:
            break
        for seconds, loaded in zip(taken, (source, engine), strict=True):
            started = time.perf_counter()
            loaded.infer(batch)
            seconds.append(time.perf_counter() - started)
    return _point(rows, taken[0]), _point(rows, taken[1])


def _point(rows: int, seconds: Sequence[float]) -> BenchPoint:
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
    revision=1,
    requires=("source", "engine", "sample"),
    accepts=(FILES,),
    outputs=(),
    parameters=BenchParameters,
    result=BenchResult,
    run=run,
)
