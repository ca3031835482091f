"""golden: pairs that the training code recorded, against our pre-processing, the engine and post-processing.

Each layer is held against its own recorded result, so that a fault is named where it is: our inputs from the
raw bytes, the engine's outputs from the recorded inputs, our answer from the recorded outputs. Where the
contract lets rows of different lengths share a run, pairs are run together too: padding must change nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.data.pairs import Pair, read_pairs
from builder.data.prepare import FILES, files_of, preprocess
from builder.data.samples import Array
from builder.judgement.comparison import Comparison
from builder.judgement.differences import answer_difference, first_difference
from builder.steps.engines import Outputs, opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import GoldenReport
from registry.contract.identity import TargetName
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import Signature
from registry.contract.wire import Wire
from serving.pipeline.batch import split
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.inputs import rows_of
from serving.pipeline.padding import Filler, filler_of
from serving.pipeline.prepared import Prepared
from serving.pipeline.processing import Postprocess, Preprocess, post
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine, Tensors

# Pairs that share a run when their padding is tried.
TOGETHER = 8


class GoldenParameters(Wire):
    """`exact`: outputs are held to `max_abs` of the recorded ones. A quantised engine can't be; it is held to
    `min_cosine` and `max_flip_rate` over all pairs (one flip is always allowed: pairs are few), and its
    inputs and answers are exact all the same. `max_rows`: what a run of the engine may hold."""

    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    exact: bool
    max_abs: float
    min_cosine: float
    max_flip_rate: float
    max_rows: int = 1


class GoldenResult(StepResult):
    report: GoldenReport


@dataclass(slots=True)
class _Tally:
    pairs: int = 0
    classified: int = 0
    flips: int = 0
    outputs: Comparison = field(default_factory=Comparison)

    def difference(self, parameters: GoldenParameters) -> str | None:
        """What is wrong over all pairs together."""
        for output in self.outputs.outputs():
            if output.cosine < parameters.min_cosine:
                return (
                    f"engine, output {output.output!r}: cosine {output.cosine:.4f} with the recorded ones "
                    f"over all pairs (limit {parameters.min_cosine:g})"
                )
        if self.flips > max(1, math.ceil(parameters.max_flip_rate * self.classified)):
            return f"engine: {self.flips} of {self.classified} pairs get another label"
        return None


@dataclass(slots=True)
class _Trial:
    """Pairs that agree alone, waiting to be run together."""

    engine: LoadedEngine
    filler: Filler
    max_rows: int
    max_abs: float
    waiting: list[tuple[Pair, Tensors, Tensors]] = field(default_factory=list)

    def add(self, pair: Pair, inputs: Tensors, outputs: Tensors) -> str | None:
        """`outputs`: as recorded, or as the engine gave them for this pair alone."""
        self.waiting.append((pair, inputs, outputs))
        full = len(self.waiting) == min(TOGETHER, self.max_rows)
        return self.run() if full else None

    def run(self) -> str | None:
        together, self.waiting = self.waiting, []
        if len(together) < 2:
            return None
        joined = self.filler.join([inputs for _, inputs, _ in together])
        parts = split(self.engine.infer(joined), [rows_of(inputs) for _, inputs, _ in together])
        company = f"in one run with pairs {together[0][0].number} to {together[-1][0].number}"
        for (pair, inputs, wanted), got in zip(together, parts, strict=True):
            own = self.filler.cut(got, self.filler.length(inputs))
            where = f"pair {pair.number}, {company}, engine, output"
            found = first_difference(where, wanted, own, self.max_abs)
            if found:
                return f"{found}; the padding rule (masking, side) is not the model's"
        return None


@dataclass(frozen=True, slots=True)
class _Bench:
    """Everything that pairs are compared by."""

    parameters: GoldenParameters
    process: Preprocess
    engine: LoadedEngine
    answer: Postprocess
    trial: _Trial | None
    tally: _Tally


def run(parameters: GoldenParameters, inputs: Inputs, out: Path) -> GoldenResult:
    files = files_of(parameters.pipeline, inputs)
    process = preprocess(parameters.pipeline, parameters.signature, files)
    try:
        answer = post(parameters.pipeline, parameters.signature, files)
    except PipelineMismatch as error:
        raise Refused(f"the version's post-processing doesn't fit its signature: {error}") from error
    tally = _Tally()
    first: str | None = None
    with opened(inputs["engine"], parameters.target) as engine:
        bench = _Bench(parameters, process, engine, answer, _trial(parameters, engine), tally)
        for pair in read_pairs(inputs["golden"], parameters.signature):
            tally.pairs += 1
            first = first or _compare(pair, bench)
        if bench.trial is not None:
            first = first or _guarded("the last pairs together", bench.trial)
    if not tally.pairs:
        raise Refused("the golden file has no pairs; record some with the training code")
    first = first or tally.difference(parameters)
    report = GoldenReport(pairs=tally.pairs, passed=first is None, first_difference=first)
    return GoldenResult(says=first or f"all {tally.pairs} golden pairs agree", report=report)


def _trial(parameters: GoldenParameters, engine: LoadedEngine) -> _Trial | None:
    filler = filler_of(parameters.pipeline, parameters.signature)
    if filler is None or not parameters.exact or parameters.max_rows < 2:
        return None
    return _Trial(engine, filler, parameters.max_rows, parameters.max_abs)


def _guarded(where: str, trial: _Trial) -> str | None:
    try:
        return trial.run()
    except (RuntimeFault, IllegalAnswer) as error:
        return f"{where}: {error}"


def _compare(pair: Pair, bench: _Bench) -> str | None:
    where = f"pair {pair.number}"
    parameters = bench.parameters
    try:
        made = bench.process.prepare(pair.raw)
        found = first_difference(f"{where}, pre-processing, input", pair.inputs, made.tensors, 1e-6)
        if found:
            return found
        inputs = pair.inputs or made.tensors
        outputs = bench.engine.infer(inputs)
        found = _compare_outputs(where, pair, outputs, parameters, bench.tally)
        if found:
            return found
        _count_flip(pair, outputs, parameters.pipeline, bench.tally)
        found = _compare_answers(where, pair, made, outputs, bench)
        if found or bench.trial is None:
            return found
        return bench.trial.add(pair, inputs, {**outputs, **pair.outputs})
    except (RuntimeFault, IllegalAnswer) as error:
        return f"{where}: {error}"


def _compare_answers(where: str, pair: Pair, made: Prepared, outputs: Outputs, bench: _Bench) -> str | None:
    if not pair.answers:
        return None
    recorded = pair.outputs if _complete(pair.outputs, bench.parameters.signature) else None
    if recorded is None and not bench.parameters.exact:
        return None
    rows = rows_of(pair.inputs or made.tensors)
    if len(pair.answers) != rows:
        return (
            f"{where}, pre-processing: {len(pair.answers)} answers were recorded, and ours makes {rows} rows"
        )
    given = bench.answer(recorded or outputs, rows, made.place)
    limit = 1e-6 if recorded else max(bench.parameters.max_abs, 1e-6)
    layer = f"{where}, post-processing, answer"
    differences = (
        answer_difference(layer if rows == 1 else f"{layer} {row}", wanted, got, limit)
        for row, (wanted, got) in enumerate(zip(pair.answers, given, strict=True))
    )
    return next((found for found in differences if found), None)


def _complete(outputs: Mapping[str, Array], signature: Signature) -> bool:
    return all(spec.name in outputs for spec in signature.outputs)


def _compare_outputs(
    where: str, pair: Pair, got: Outputs, parameters: GoldenParameters, tally: _Tally
) -> str | None:
    if parameters.exact:
        return first_difference(f"{where}, engine, output", pair.outputs, got, parameters.max_abs)
    missing = [name for name in pair.outputs if name not in got]
    if missing:
        return f"{where}, engine: output {missing[0]!r} was recorded, and the engine doesn't give it"
    try:
        if pair.outputs:
            tally.outputs.add(where, pair.outputs, {name: got[name] for name in pair.outputs})
    except ValueError as error:
        return f"{where}, engine: {error}"
    return None


def _count_flip(pair: Pair, got: Outputs, pipeline: PipelineSpec, tally: _Tally) -> None:
    for step in pipeline.post:
        if isinstance(step, Classify) and step.output in pair.outputs and step.output in got:
            tally.classified += 1
            tally.flips += int(pair.outputs[step.output].argmax()) != int(got[step.output].argmax())


STEP = Step(
    name="golden",
    revision=2,
    requires=("engine", "golden"),
    accepts=(FILES,),
    outputs=(),
    parameters=GoldenParameters,
    result=GoldenResult,
    run=run,
)
