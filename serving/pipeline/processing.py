"""A version's pipeline, ready to run: raw bytes → tensors, and outputs → answers."""

from collections.abc import Callable
from typing import Protocol, assert_never

from registry.contract.pipeline import (
    ByteWindow,
    Classify,
    JsonTensors,
    PipelineSpec,
    PostStep,
    PreStep,
    Regress,
)
from registry.contract.pipeline import Tensors as TensorsSpec
from registry.contract.versions import Signature
from serving.pipeline.answers import Answer, RowAnswer
from serving.pipeline.byte_window import ByteWindowStep
from serving.pipeline.classify import ClassifyStep
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.json_tensors import JsonTensorsStep
from serving.pipeline.nested import TensorsStep
from serving.pipeline.regress import RegressStep
from serving.runtimes.protocol import Array, Tensors

Preprocess = Callable[[bytes], dict[str, Array]]


class PostprocessStep(Protocol):
    @property
    def fields(self) -> tuple[str, ...]:
        """What it writes into an answer."""

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        """One entry per row. Raises IllegalAnswer when the whole batch is wrong."""


def pre(spec: PipelineSpec, signature: Signature) -> Preprocess:
    """Raw input → one row of every input tensor, batch axis first.

    Without steps a raw input is JSON tensors. The steps together must make every input exactly once, else
    PipelineMismatch. Calling it raises InputError for raw inputs that can't be read.
    """
    steps = [_pre_step(step, signature) for step in spec.pre or (JsonTensors(),)]
    _check_made(spec, signature)
    if len(steps) == 1:
        return steps[0]
    return lambda raw: {name: tensor for step in steps for name, tensor in step(raw).items()}


class Postprocess:
    """Outputs → answers, with the legality check of every step. Without steps: the tensors themselves."""

    def __init__(self, spec: PipelineSpec, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        self._steps = [_post_step(step, signature) for step in spec.post or (TensorsSpec(),)]
        self.fields: tuple[str, ...] = tuple(field for step in self._steps for field in step.fields)
        """What every legal answer holds."""
        twice = {field for field in self.fields if self.fields.count(field) > 1}
        if twice:
            raise PipelineMismatch(f"two post-processing steps write {', '.join(sorted(twice))}")

    def __call__(self, outputs: Tensors, rows: int) -> list[Answer]:
        """One answer per row. Raises IllegalAnswer for the first row that can't be right."""
        answers: list[Answer] = []
        for answer in self.rows(outputs, rows):
            if isinstance(answer, IllegalAnswer):
                raise answer
            answers.append(answer)
        return answers

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        """One answer or IllegalAnswer per row, so that a bad row fails alone. Raises IllegalAnswer when
        the whole batch is wrong (an output missing, or of the wrong shape)."""
        first, *others = (step.rows(outputs, rows) for step in self._steps)
        for other in others:
            first = [_merged(left, right) for left, right in zip(first, other, strict=True)]
        return first


def post(spec: PipelineSpec, signature: Signature) -> Postprocess:
    """Raises PipelineMismatch when the steps and the signature's outputs don't fit."""
    return Postprocess(spec, signature)


def _merged(left: RowAnswer, right: RowAnswer) -> RowAnswer:
    if isinstance(left, IllegalAnswer):
        return left
    return right if isinstance(right, IllegalAnswer) else {**left, **right}


def _pre_step(step: PreStep, signature: Signature) -> Preprocess:
    match step:
        case ByteWindow():
            return ByteWindowStep(step, signature)
        case JsonTensors():
            return JsonTensorsStep(step, signature)
        case _:
            assert_never(step)


def _post_step(step: PostStep, signature: Signature) -> PostprocessStep:
    match step:
        case Classify():
            return ClassifyStep(step, signature)
        case Regress():
            return RegressStep(step, signature)
        case TensorsSpec():
            return TensorsStep(step, signature)
        case _:
            assert_never(step)


def _check_made(spec: PipelineSpec, signature: Signature) -> None:
    names = sorted(tensor.name for tensor in signature.inputs)
    made: list[str] = []
    for step in spec.pre or (JsonTensors(),):
        made += names if isinstance(step, JsonTensors) else [step.output]
    if sorted(made) != names:
        raise PipelineMismatch(
            f"pre-processing makes {', '.join(made)}, but the signature's inputs are {', '.join(names)}"
        )
