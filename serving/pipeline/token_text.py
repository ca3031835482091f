"""A sequence of token ids → text."""

from collections.abc import Sequence

from registry.contract.pipeline import TokenText
from registry.contract.versions import Dtype, Signature
from serving.pipeline.answers import Answer, RowAnswer
from serving.pipeline.encoders import Decoder, HuggingFace, Vocabulary
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.files import Files
from serving.pipeline.legality import finite_rows, not_finite, output_of, output_spec
from serving.pipeline.prepared import Cost
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.protocol import Tensors

INLINE_IDS = 512


class TokenTextStep:
    """`text`, and `length` in tokens, without those that are skipped."""

    def __init__(self, step: TokenText, signature: Signature, files: Files) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._spec = output_spec(signature, step.output, "token-text")
        self._scored = self._spec.dtype in FLOATS
        rank = 3 if self._scored else 2
        if len(self._spec.shape) != rank or self._spec.dtype in (Dtype.BYTES, Dtype.BOOL):
            raise PipelineMismatch(
                f"token-text reads whole numbers [rows, length] or FLOAT[rows, length, vocabulary], but "
                f"{step.output!r} is {self._spec.dtype.value}{list(self._spec.shape)}"
            )
        self._decoder: Decoder
        if step.tokenizer == "huggingface":
            self._decoder = HuggingFace(files, step.file, "token-text")
        else:
            self._decoder = Vocabulary(files, step.file, "token-text", joiner=step.joiner)
        self._skip = frozenset(step.skip)

    def cost(self, outputs: Tensors) -> Cost:
        found = outputs.get(self._spec.name)
        most = INLINE_IDS * (64 if self._scored else 1)
        return Cost.INLINE if found is None or found.size <= most else Cost.WORKER

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows)
        finite = finite_rows(tensor)
        ids = tensor.argmax(axis=2) if self._scored else tensor
        return [
            self._answer(ids[row].tolist()) if finite[row] else not_finite(self._spec.name, row)
            for row in range(rows)
        ]

    def _answer(self, ids: Sequence[int]) -> Answer:
        stop = self._step.stop
        end = ids.index(stop) if stop is not None and stop in ids else len(ids)
        # A negative number is no token of any tokenizer: models use it for "nothing here".
        kept = [index for index in ids[:end] if index not in self._skip and index >= 0]
        return {"text": self._decoder.decode(kept), "length": len(kept)}
