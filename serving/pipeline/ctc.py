"""Per-step class scores → text: greedy CTC decoding."""

import numpy as np

from registry.contract.pipeline import Ctc
from registry.contract.versions import Signature
from serving.pipeline.activations import softmax
from serving.pipeline.answers import Answer, RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.files import Files, read_lines
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

INLINE_SCORES = 100_000


class CtcStep:
    """`text`, `score`, `length` (characters of the text)."""

    def __init__(self, step: Ctc, signature: Signature, files: Files) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._spec = output_spec(signature, step.output, "ctc")
        if self._spec.dtype not in FLOATS or len(self._spec.shape) != 3:
            raise PipelineMismatch(
                f"ctc reads FLOAT[rows, steps, classes], but {step.output!r} is "
                f"{self._spec.dtype.value}{list(self._spec.shape)}"
            )
        tokens = step.tokens if step.file is None else read_lines(files, step.file, "ctc")
        classes = self._spec.shape[2]
        if isinstance(classes, int) and classes != len(tokens) + 1:
            raise PipelineMismatch(
                f"ctc has {len(tokens)} characters and a blank, but {step.output!r} has {classes} classes"
            )
        if step.blank > len(tokens):
            raise PipelineMismatch(f"ctc's blank is class {step.blank} of {len(tokens) + 1}")
        self._tokens = (*tokens[: step.blank], "", *tokens[step.blank :])

    def cost(self, outputs: Tensors) -> Cost:
        scores = outputs.get(self._spec.name)
        return Cost.INLINE if scores is None or scores.size <= INLINE_SCORES else Cost.WORKER

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows)
        if tensor.shape[2] != len(self._tokens):
            raise IllegalAnswer(
                f"output {self._spec.name!r} has {tensor.shape[2]} classes, not {len(self._tokens)}"
            )
        finite = finite_rows(tensor)
        scores = softmax(np.where(finite[:, None, None], tensor, 0)) if self._step.softmax else tensor
        return answers(self._spec.name, finite, scores_legal(scores), lambda row: self._answer(scores[row]))

    def _answer(self, scores: Array) -> Answer:
        classes = scores.argmax(axis=1)
        kept = classes != self._step.blank
        kept[1:] &= classes[1:] != classes[:-1]
        best = scores.max(axis=1)[kept] if kept.any() else np.ones(1)
        text = "".join(self._tokens[index] for index in classes[kept])
        return {"text": text, "score": clipped(best.mean()), "length": len(text)}
