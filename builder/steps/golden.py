"""golden: pairs that the training code recorded, against our pre-processing, the engine and post-processing.

Each layer is held against its own recorded result, so that a fault is named where it is: our inputs from the
raw bytes, the engine's outputs from the recorded inputs, our answer from the recorded outputs.
"""

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from builder.comparison import Comparison
from builder.differences import answer_difference, first_difference
from builder.prepare import preprocess
from builder.samples import Array
from builder.steps.engines import Outputs, opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.builds import GoldenReport
from registry.contract.identity import TargetName
from registry.contract.pipeline import Classify, PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec
from registry.contract.wire import Wire
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.processing import Postprocess, post
from serving.runtimes.dtypes import numpy_dtype, unpack_bytes
from serving.runtimes.errors import InputError, RuntimeFault
from serving.runtimes.protocol import LoadedEngine


class GoldenParameters(Wire):
    """`exact`: outputs are held to `max_abs` of the recorded ones. A quantised engine can't be; it is held to
    `min_cosine` and `max_flip_rate` over all pairs (one flip is always allowed: pairs are few), and its
    inputs and answers are exact all the same."""

    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    exact: bool
    max_abs: float
    min_cosine: float
    max_flip_rate: float


class GoldenResult(StepResult):
    report: GoldenReport


@dataclass(frozen=True, slots=True)
class Pair:
    number: int
    raw: bytes
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    answer: dict[str, Any]


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
                    "over all "
                    f"pairs (limit {parameters.min_cosine:g})"
                )
        if self.flips > max(1, math.ceil(parameters.max_flip_rate * self.classified)):
            return f"engine: {self.flips} of {self.classified} pairs get another label"
        return None


def run(parameters: GoldenParameters, inputs: Inputs, out: Path) -> GoldenResult:
    process = preprocess(parameters.pipeline, parameters.signature)
    try:
        answer = post(parameters.pipeline, parameters.signature)
    except PipelineMismatch as error:
        raise Refused(f"the version's post-processing doesn't fit its signature: {error}") from error
    tally = _Tally()
    first: str | None = None
    with opened(inputs["engine"], parameters.target) as engine:
        for pair in read_pairs(inputs["golden"], parameters.signature):
            tally.pairs += 1
            first = first or _compare(pair, process, engine, answer, parameters, tally)
    if not tally.pairs:
        raise Refused("the golden file has no pairs; record some with the training code")
    first = first or tally.difference(parameters)
    report = GoldenReport(pairs=tally.pairs, passed=first is None, first_difference=first)
    return GoldenResult(says=first or f"all {tally.pairs} golden pairs agree", report=report)


def read_pairs(path: Path, signature: Signature) -> Iterator[Pair]:
    """Raises Refused on a line that is no pair."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = orjson.loads(line)
                yield Pair(
                    number,
                    base64.b64decode(found["raw"], validate=True),
                    _tensors(found.get("inputs") or {}, signature.inputs),
                    _tensors(found.get("outputs") or {}, signature.outputs),
                    dict(found.get("answer") or {}),
                )
            except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
                raise Refused(
                    f"line {number} of the golden file is no pair ({type(error).__name__}: {error}); a pair "
                    "is "
                    '{"raw": base64, "inputs": {name: {dtype, shape, data: base64}}, "outputs": {…}, '
                    '"answer": {…}}'
                ) from error


def _tensors(found: Mapping[str, Any], specs: tuple[TensorSpec, ...]) -> dict[str, Array]:
    """Little-endian, rows first; a batch axis of 1 is added where it was left out."""
    ranks = {spec.name: len(spec.shape) for spec in specs}
    tensors: dict[str, Array] = {}
    for name, value in found.items():
        dtype, data = Dtype(value["dtype"]), base64.b64decode(value["data"], validate=True)
        if dtype is Dtype.BYTES:
            tensor = unpack_bytes(data, value["shape"])
        else:
            plain = numpy_dtype(dtype).newbyteorder("<")
            tensor = np.frombuffer(data, dtype=plain).reshape(value["shape"]).astype(numpy_dtype(dtype))
        tensors[name] = tensor[np.newaxis] if tensor.ndim == ranks.get(name, tensor.ndim) - 1 else tensor
    return tensors


def _compare(
    pair: Pair,
    process: Any,
    engine: LoadedEngine,
    answer: Postprocess,
    parameters: GoldenParameters,
    tally: _Tally,
) -> str | None:
    where = f"pair {pair.number}"
    try:
        made = process(pair.raw)
        found = first_difference(f"{where}, pre-processing, input", pair.inputs, made, 1e-6)
        if found:
            return found
        outputs = engine.infer(pair.inputs or made)
        found = _compare_outputs(where, pair, outputs, parameters, tally)
        if found:
            return found
        _count_flip(pair, outputs, parameters.pipeline, tally)
        if not pair.answer:
            return None
        recorded = pair.outputs if _complete(pair.outputs, parameters.signature) else None
        if recorded is None and not parameters.exact:
            return None
        given = answer(recorded or outputs, 1)[0]
        limit = 1e-6 if recorded else max(parameters.max_abs, 1e-6)
        return answer_difference(f"{where}, post-processing, answer", pair.answer, given, limit)
    except (RuntimeFault, IllegalAnswer) as error:
        return f"{where}: {error}"


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
    revision=1,
    requires=("engine", "golden"),
    accepts=(),
    outputs=(),
    parameters=GoldenParameters,
    result=GoldenResult,
    run=run,
)
