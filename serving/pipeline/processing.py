"""A version's pipeline, ready to run: raw bytes → tensors, and outputs → answers."""

from collections.abc import Sequence
from typing import Protocol, assert_never

from registry.contract.pipeline import (
    Argmax,
    ByteWindow,
    Classify,
    Ctc,
    Detect,
    Image,
    JsonTensors,
    PipelineSpec,
    PostStep,
    PreStep,
    Regress,
    Table,
    Tags,
    Tokenise,
    TokenText,
    Window,
)
from registry.contract.pipeline import Tensors as TensorsSpec
from registry.contract.versions import Signature
from serving.pipeline.answers import Answer, RowAnswer
from serving.pipeline.argmax import ArgmaxStep
from serving.pipeline.byte_window import ByteWindowStep
from serving.pipeline.classify import ClassifyStep
from serving.pipeline.ctc import CtcStep
from serving.pipeline.detect import DetectStep, locate
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.image import ImageStep
from serving.pipeline.json_tensors import JsonTensorsStep
from serving.pipeline.nested import TensorsStep
from serving.pipeline.prepared import Cost, Place, Prepared
from serving.pipeline.regress import RegressStep
from serving.pipeline.table import TableStep
from serving.pipeline.tags import TagsStep
from serving.pipeline.token_text import TokenTextStep
from serving.pipeline.tokenise import TokeniseStep
from serving.pipeline.window import WindowStep
from serving.runtimes.protocol import Array, Tensors


class PreprocessStep(Protocol):
    def cost(self, size: int) -> Cost:
        """Of a raw input of so many bytes."""

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError."""


class PostprocessStep(Protocol):
    def cost(self, outputs: Tensors) -> Cost: ...

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        """One entry per row. Raises IllegalAnswer when the whole batch is wrong."""


class Preprocess:
    """Raw input → rows of every input tensor, batch axis first; one row, but for windows of a series.

    Without steps a raw input is JSON tensors. The steps together must make every input exactly once.
    """

    def __init__(self, spec: PipelineSpec, signature: Signature, files: Files = NO_FILES) -> None:
        """Raises PipelineMismatch."""
        self._steps = [_pre_step(step, signature, files) for step in spec.pre or (JsonTensors(),)]
        _check_made(spec, signature)

    def __call__(self, raw: bytes) -> dict[str, Array]:
        """The tensors alone. Raises InputError for raw inputs that can't be read."""
        return self.prepare(raw).tensors

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError."""
        if len(self._steps) == 1:
            return self._steps[0].prepare(raw)
        parts = [step.prepare(raw) for step in self._steps]
        tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
        return Prepared(tensors, next((part.place for part in parts if part.place), None))

    def cost(self, size: int) -> Cost:
        """WORKER when any step is dear for a raw input of so many bytes."""
        return _dearest([step.cost(size) for step in self._steps])


def missing_as_nan(spec: PipelineSpec) -> frozenset[str]:
    """Inputs in which NaN means that a value is missing, as in training."""
    return frozenset(
        step.output
        for step in spec.pre
        if isinstance(step, Table) and any(column.missing == "nan" for column in step.columns)
    )


def pre(spec: PipelineSpec, signature: Signature, files: Files = NO_FILES) -> Preprocess:
    """Raises PipelineMismatch when the steps, the signature's inputs and the files don't fit."""
    return Preprocess(spec, signature, files)


class Postprocess:
    """Outputs → answers, with the legality check of every step. Without steps: the tensors themselves."""

    def __init__(self, spec: PipelineSpec, signature: Signature, files: Files = NO_FILES) -> None:
        """Raises PipelineMismatch."""
        self._spec = spec
        self._steps = [_post_step(step, signature, files) for step in spec.post or (TensorsSpec(),)]
        self.fields = answer_fields(spec, signature)
        """What every legal answer holds."""
        twice = {field for field in self.fields if self.fields.count(field) > 1}
        if twice:
            raise PipelineMismatch(f"two post-processing steps write {', '.join(sorted(twice))}")

    def __call__(self, outputs: Tensors, rows: int, place: Place | None = None) -> list[Answer]:
        """One answer per row, with boxes in the image of `place`. Raises IllegalAnswer for the first row that
        can't be right."""
        answers: list[Answer] = []
        for answer in self.rows(outputs, rows):
            if isinstance(answer, IllegalAnswer):
                raise answer
            answers.append(located(self._spec, answer, place))
        return answers

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        """One answer or IllegalAnswer per row, so that a bad row fails alone; boxes are in the engine's
        input. Raises IllegalAnswer when the whole batch is wrong (an output missing, or of the wrong
        shape)."""
        first, *others = (step.rows(outputs, rows) for step in self._steps)
        for other in others:
            first = [_merged(left, right) for left, right in zip(first, other, strict=True)]
        return first

    def cost(self, outputs: Tensors) -> Cost:
        """WORKER when any step is dear for outputs of this size."""
        return _dearest([step.cost(outputs) for step in self._steps])


def post(spec: PipelineSpec, signature: Signature, files: Files = NO_FILES) -> Postprocess:
    """Raises PipelineMismatch when the steps, the signature's outputs and the files don't fit."""
    return Postprocess(spec, signature, files)


def answer_fields(spec: PipelineSpec, signature: Signature) -> tuple[str, ...]:
    """What every legal answer holds; no file is read for it."""
    return tuple(name for name, _ in spec.holds([tensor.name for tensor in signature.outputs]))


def located(spec: PipelineSpec, answer: Answer, place: Place | None) -> Answer:
    """Boxes of an answer brought back to the image that was sent; without a place, and other answers, as they
    are."""
    if place is not None:
        for step in spec.post:
            if isinstance(step, Detect):
                answer = locate(step, answer, place)
    return answer


def _dearest(costs: Sequence[Cost]) -> Cost:
    return Cost.WORKER if Cost.WORKER in costs else Cost.INLINE


def _merged(left: RowAnswer, right: RowAnswer) -> RowAnswer:
    if isinstance(left, IllegalAnswer):
        return left
    return right if isinstance(right, IllegalAnswer) else {**left, **right}


def _pre_step(step: PreStep, signature: Signature, files: Files) -> PreprocessStep:
    match step:
        case ByteWindow():
            return ByteWindowStep(step, signature)
        case JsonTensors():
            return JsonTensorsStep(step, signature)
        case Tokenise():
            return TokeniseStep(step, signature, files)
        case Image():
            return ImageStep(step, signature)
        case Table():
            return TableStep(step, signature)
        case Window():
            return WindowStep(step, signature)
        case _:
            assert_never(step)


def _post_step(step: PostStep, signature: Signature, files: Files) -> PostprocessStep:
    match step:
        case Classify():
            return ClassifyStep(step, signature)
        case Argmax():
            return ArgmaxStep(step, signature)
        case Tags():
            return TagsStep(step, signature)
        case Regress():
            return RegressStep(step, signature)
        case Ctc():
            return CtcStep(step, signature, files)
        case TokenText():
            return TokenTextStep(step, signature, files)
        case Detect():
            return DetectStep(step, signature)
        case TensorsSpec():
            return TensorsStep(step, signature)
        case _:
            assert_never(step)


def _check_made(spec: PipelineSpec, signature: Signature) -> None:
    names = sorted(tensor.name for tensor in signature.inputs)
    made: list[str] = []
    for step in spec.pre or (JsonTensors(),):
        match step:
            case JsonTensors():
                made += names
            case Tokenise():
                made += step.outputs
            case _:
                made.append(step.output)
    if sorted(made) != names:
        raise PipelineMismatch(
            f"pre-processing makes {', '.join(made)}, but the signature's inputs are {', '.join(names)}"
        )
