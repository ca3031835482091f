"""Class scores → label."""

import numpy as np

from registry.contract.pipeline import Classify
from registry.contract.versions import Dtype, Signature
from serving.pipeline.activations import sigmoid, softmax
from serving.pipeline.answers import Answer, AnswerValue, RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import (
    answers,
    clipped,
    finite_rows,
    output_of,
    output_spec,
    scores_legal,
)
from serving.pipeline.prepared import Cost
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.protocol import Array, Tensors


class ClassifyStep:
    """`label`, `score`, `index` of the best class (the first one of equals), and `top`: the best classes
    with the same three fields each, best first."""

    def __init__(self, step: Classify, signature: Signature) -> None:
        self._step = step
        self._spec = output_spec(signature, step.output, "classify")
        shape = self._spec.shape
        if self._spec.dtype not in FLOATS or len(shape) not in ((1, 2) if step.sigmoid else (2,)):
            raise PipelineMismatch(
                f"classify needs FLOAT[rows, classes], but {step.output!r} is "
                f"{Dtype(self._spec.dtype).value}{list(shape)}"
            )
        classes = shape[1] if len(shape) == 2 else 1
        wanted = 2 if step.sigmoid and classes == 1 else classes
        if step.labels and isinstance(wanted, int) and wanted != len(step.labels):
            raise PipelineMismatch(f"{len(step.labels)} labels for {wanted} classes of {step.output!r}")

    def cost(self, outputs: Tensors) -> Cost:
        return Cost.INLINE

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows).reshape(rows, -1)
        finite = finite_rows(tensor)
        scores = self._scores(np.where(finite[:, np.newaxis], tensor, 0))
        labels = self._step.labels
        if not scores.shape[1] or (labels and scores.shape[1] != len(labels)):
            raise IllegalAnswer(
                f"output {self._spec.name!r} has {scores.shape[1]} classes, not {len(labels)}"
            )
        best = _best(scores, self._step.top)
        return answers(
            self._spec.name, finite, scores_legal(scores), lambda row: self._answer(scores[row], best[row])
        )

    def _scores(self, tensor: Array) -> Array:
        if self._step.softmax:
            return softmax(tensor)
        if not self._step.sigmoid:
            return tensor
        scores = sigmoid(tensor)
        return np.concatenate([1 - scores, scores], axis=1) if scores.shape[1] == 1 else scores

    def _answer(self, scores: Array, best: Array) -> Answer:
        top = [self._entry(scores, int(index)) for index in best]
        return {**top[0], "top": list[AnswerValue](top)}

    def _entry(self, scores: Array, index: int) -> Answer:
        label = self._step.labels[index] if self._step.labels else str(index)
        return {"label": label, "score": clipped(scores[index]), "index": index}


def _best(scores: Array, top: int) -> Array:
    """int[rows, min(top, classes)], best first; of equals the lower index first."""
    if top == 1:
        best: Array = scores.argmax(axis=1)[:, np.newaxis]
        return best
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]
