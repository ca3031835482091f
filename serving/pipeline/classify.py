"""Class scores → label."""

import numpy as np

from registry.contract.pipeline import Classify
from registry.contract.versions import Dtype, Signature
from serving.pipeline.answers import Answer, AnswerValue, RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import SCORE_SLACK, finite_rows, not_finite, output_of, output_spec
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.protocol import Array, Tensors


class ClassifyStep:
    """`label`, `score`, `index` of the best class (the first one of equals), and `top`: the best classes
    with the same three fields each, best first."""

    fields = ("label", "score", "index", "top")

    def __init__(self, step: Classify, signature: Signature) -> None:
        self._step = step
        self._spec = output_spec(signature, step.output, "classify")
        if self._spec.dtype not in FLOATS or len(self._spec.shape) != 2:
            raise PipelineMismatch(
                f"classify needs FLOAT[rows, classes], but {step.output!r} is "
                f"{Dtype(self._spec.dtype).value}{list(self._spec.shape)}"
            )
        classes = self._spec.shape[1]
        if step.labels and isinstance(classes, int) and classes != len(step.labels):
            raise PipelineMismatch(f"{len(step.labels)} labels for {classes} classes of {step.output!r}")

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        scores = output_of(outputs, self._spec, rows)
        labels = self._step.labels
        if not scores.shape[1] or (labels and scores.shape[1] != len(labels)):
            raise IllegalAnswer(
                f"output {self._spec.name!r} has {scores.shape[1]} classes, not {len(labels)}"
            )
        finite = finite_rows(scores)
        if self._step.softmax:
            scores = _softmax(np.where(finite[:, np.newaxis], scores, 0))
            legal = finite
        else:
            with np.errstate(invalid="ignore"):
                legal = finite & ((scores >= -SCORE_SLACK) & (scores <= 1 + SCORE_SLACK)).all(axis=1)
        best = _best(scores, self._step.top)
        return [
            self._answer(scores[row], best[row]) if legal[row] else self._illegal(row, bool(finite[row]))
            for row in range(rows)
        ]

    def _answer(self, scores: Array, best: Array) -> Answer:
        top: list[AnswerValue] = [self._entry(scores, int(index)) for index in best]
        return {**self._entry(scores, int(best[0])), "top": top}

    def _entry(self, scores: Array, index: int) -> Answer:
        label = self._step.labels[index] if self._step.labels else str(index)
        return {"label": label, "score": min(1.0, max(0.0, float(scores[index]))), "index": index}

    def _illegal(self, row: int, finite: bool) -> IllegalAnswer:
        name = self._spec.name
        if not finite:
            return not_finite(name, row)
        return IllegalAnswer(f"output {name!r} holds scores outside [0, 1]; are they logits (softmax)?", row)


def _softmax(logits: Array) -> Array:
    wide = logits.astype(np.float32) if logits.dtype == np.float16 else logits
    exponents = np.exp(wide - wide.max(axis=1, keepdims=True))
    scores: Array = exponents / exponents.sum(axis=1, keepdims=True)
    return scores


def _best(scores: Array, top: int) -> Array:
    """int[rows, min(top, classes)], best first; of equals the lower index first."""
    if top == 1:
        best: Array = scores.argmax(axis=1)[:, np.newaxis]
        return best
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]
