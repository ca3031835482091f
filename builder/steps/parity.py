"""parity: the engine beside the source, row by row through the nodes' own adapter, alone and in batches."""

from collections.abc import Sequence
from pathlib import Path

from builder.data.samples import Array, Sample, batches, read_samples
from builder.judgement.comparison import Comparison, deviation
from builder.steps.check import BATCHES, SHARING
from builder.steps.engines import Outputs, batch_varies, opened, run_batch
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import ParityReport
from registry.contract.identity import TargetName
from registry.contract.wire import Wire
from serving.pipeline.errors import IllegalAnswer
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine

# Rows that are also run in batches.
BATCHED_ROWS = 15


class ParityParameters(Wire):
    """`classes`: the output whose highest score is the label. `max_rows` 1: never run in a batch.

    `source_target`: what the source is loaded for; None: the engine's own target.
    """

    target: TargetName
    max_rows: int
    classes: str | None = None
    source_target: TargetName | None = None


class ParityResult(StepResult):
    report: ParityReport
    input_shapes: dict[str, tuple[int | str, ...]]
    batchable: bool


def run(parameters: ParityParameters, inputs: Inputs, out: Path) -> ParityResult:
    samples = read_samples(inputs["sample"])
    with opened(inputs["source"], parameters.source_target or parameters.target) as source:
        wanted = [_alone(source, sample, "source") for sample in samples]
    with opened(inputs["engine"], parameters.target) as engine:
        got = [_alone(engine, sample, "engine") for sample in samples]
        max_rows = parameters.max_rows if batch_varies(engine.signature) else 1
        shapes, apart, biggest = _in_batches(engine, samples, got, max_rows)
        input_shapes = {spec.name: spec.shape for spec in engine.signature.inputs}
    comparison = Comparison()
    flips = 0
    for sample, left, right in zip(samples, wanted, got, strict=True):
        comparison.add(sample.key, left, right)
        flips += parameters.classes is not None and _label(left[parameters.classes]) != _label(
            right[parameters.classes]
        )
    report = ParityReport(
        rows=len(samples),
        shapes=shapes,
        outputs=comparison.outputs(),
        flips=flips if parameters.classes is not None else None,
        flip_rate=flips / len(samples) if parameters.classes is not None else None,
        batch_invariant=apart <= SHARING,
        batch_max_abs=biggest,
        worst_rows=comparison.worst(),
    )
    return ParityResult(
        says=_sentence(report, apart),
        report=report,
        input_shapes=input_shapes,
        batchable=max_rows > 1 and report.batch_invariant,
    )


def _sentence(report: ParityReport, apart: float) -> str:
    lowest = min((output.cosine for output in report.outputs), default=1.0)
    flips = "" if report.flips is None else f", {report.flips} labels change"
    alone = "" if report.batch_invariant else f"; a row deviates by {apart:.2g} in a batch"
    return f"{report.rows} rows: lowest cosine {lowest:.5f}{flips}{alone}"


def _alone(engine: LoadedEngine, sample: Sample, who: str) -> Outputs:
    try:
        return engine.infer(sample.tensors)
    except RuntimeFault as error:
        raise Refused(f"the {who} fails on row {sample.key!r}: {error}") from error


def _label(scores: Array) -> tuple[int, ...]:
    return tuple(int(one) for one in scores.reshape(len(scores), -1).argmax(axis=1))


def _in_batches(
    engine: LoadedEngine, samples: Sequence[Sample], alone: Sequence[Outputs], max_rows: int
) -> tuple[tuple[tuple[int, ...], ...], float, float]:
    """Shapes that ran, and how far a row in a batch is from the same row alone: relative, absolute."""
    ran: dict[tuple[int, ...], None] = {}
    apart = biggest = 0.0
    for size in BATCHES:
        if size > max_rows:
            continue
        at = 0
        for batch in batches(samples[:BATCHED_ROWS], size):
            first = next(iter(batch[0].tensors.values()))
            ran[(len(batch), *first.shape[1:])] = None
            if len(batch) > 1:
                for row, together in enumerate(_batch(engine, batch)):
                    apart = max(apart, deviation(alone[at + row], together))
                    biggest = max(biggest, _furthest(alone[at + row], together))
            at += len(batch)
    return tuple(ran), apart, biggest


def _batch(engine: LoadedEngine, batch: Sequence[Sample]) -> list[Outputs]:
    try:
        return run_batch(engine, batch)
    except (RuntimeFault, IllegalAnswer) as error:
        raise Refused(f"the engine fails on a batch of {len(batch)} rows: {error}") from error


def _furthest(left: Outputs, right: Outputs) -> float:
    comparison = Comparison()
    comparison.add("", left, right)
    return max((output.max_abs for output in comparison.outputs()), default=0.0)


STEP = Step(
    name="parity",
    revision=2,
    requires=("source", "engine", "sample"),
    accepts=(),
    outputs=(),
    parameters=ParityParameters,
    result=ParityResult,
    run=run,
)
