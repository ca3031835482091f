"""Any number of classes per row."""

import numpy as np

from registry.contract.pipeline import Tags
from registry.contract.versions import Signature
from serving.pipeline.activations import sigmoid
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


class TagsStep:
    """`tags`: label, score and index of the classes at or above the threshold, best first; `count`."""

    def __init__(self, step: Tags, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._spec = output_spec(signature, step.output, "tags")
        classes = self._spec.shape[1] if len(self._spec.shape) == 2 else None
        if self._spec.dtype not in FLOATS or classes is None:
            raise PipelineMismatch(
                f"tags needs FLOAT[rows, classes], but {step.output!r} is "
                f"{self._spec.dtype.value}{list(self._spec.shape)}"
            )
        if step.labels and isinstance(classes, int) and classes != len(step.labels):
            raise PipelineMismatch(f"{len(step.labels)} labels for {classes} classes of {step.output!r}")

    def cost(self, outputs: Tensors) -> Cost:
        return Cost.INLINE

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows)
        if self._step.labels and tensor.shape[1] != len(self._step.labels):
            raise IllegalAnswer(
                f"output {self._spec.name!r} has {tensor.shape[1]} classes, not {len(self._step.labels)}"
            )
        finite = finite_rows(tensor)
        scores = np.where(finite[:, np.newaxis], tensor, 0)
        scores = sigmoid(scores) if self._step.sigmoid else scores
        return answers(self._spec.name, finite, scores_legal(scores), lambda row: self._answer(scores[row]))

    def _answer(self, scores: Array) -> Answer:
        order = np.argsort(-scores, kind="stable")
        tags: list[AnswerValue] = [
            self._entry(scores, int(index)) for index in order if scores[index] >= self._step.threshold
        ]
        return {"tags": tags, "count": len(tags)}

    def _entry(self, scores: Array, index: int) -> Answer:
        label = self._step.labels[index] if self._step.labels else str(index)
        return {"label": label, "score": clipped(scores[index]), "index": index}
