"""Can this output be an answer at all?"""

from collections.abc import Callable

import numpy as np

from registry.contract.versions import Signature, TensorSpec
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.runtimes.protocol import Array, Tensors

# Quantised engines miss 0 and 1 by rounding.
SCORE_SLACK = 1e-3


def output_spec(signature: Signature, name: str, step: str) -> TensorSpec:
    """Raises PipelineMismatch when the signature has no such output."""
    for spec in signature.outputs:
        if spec.name == name:
            return spec
    names = ", ".join(spec.name for spec in signature.outputs)
    raise PipelineMismatch(f"{step} reads {name!r}, which is no output of the signature ({names})")


def output_of(outputs: Tensors, spec: TensorSpec, rows: int) -> Array:
    """The output, with `rows` rows and the signature's fixed dimensions. Raises IllegalAnswer."""
    tensor = outputs.get(spec.name)
    if tensor is None:
        raise IllegalAnswer(f"output {spec.name!r} is missing")
    fits = tensor.ndim == len(spec.shape) and all(
        isinstance(wanted, str) or wanted == got
        for wanted, got in zip(spec.shape[1:], tensor.shape[1:], strict=True)
    )
    if not fits or tensor.shape[:1] != (rows,):
        wanted = [rows, *spec.shape[1:]]
        raise IllegalAnswer(f"output {spec.name!r} has shape {list(tensor.shape)}, not {wanted}")
    return tensor


def finite_rows(tensor: Array) -> Array:
    """bool[rows]: True where all numbers of a row are finite; texts and whole numbers always are."""
    if tensor.dtype.kind != "f":
        return np.ones(len(tensor), dtype=np.bool_)
    flags: Array = np.logical_and.reduce(np.isfinite(tensor.reshape(len(tensor), -1)), axis=1)
    return flags


def not_finite(name: str, row: int) -> IllegalAnswer:
    return IllegalAnswer(f"output {name!r} holds NaN or infinity", row)


def scores_legal(scores: Array) -> Array:
    """bool[rows]: True where all scores of a row lie in [0, 1], but for rounding."""
    flat = scores.reshape(len(scores), -1)
    with np.errstate(invalid="ignore"):
        legal = (flat >= -SCORE_SLACK) & (flat <= 1 + SCORE_SLACK)
    flags: Array = np.logical_and.reduce(legal, axis=1)
    return flags


def outside(name: str, row: int) -> IllegalAnswer:
    return IllegalAnswer(f"output {name!r} holds scores outside [0, 1]; are they logits?", row)


def answers(name: str, finite: Array, legal: Array, answer: Callable[[int], RowAnswer]) -> list[RowAnswer]:
    """`answer(row)`, or what is wrong in the row. finite, legal: bool[rows]."""
    return [
        not_finite(name, row) if not finite[row] else answer(row) if legal[row] else outside(name, row)
        for row in range(len(finite))
    ]


def clipped(score: float) -> float:
    """Rounding cut off."""
    return min(1.0, max(0.0, float(score)))
