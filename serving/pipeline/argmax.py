"""The class alone, where scores have no range or the model picks the class itself."""

from registry.contract.pipeline import Argmax
from registry.contract.versions import Dtype, Signature
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import finite_rows, not_finite, output_of, output_spec
from serving.pipeline.prepared import Cost
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.protocol import Tensors


class ArgmaxStep:
    """`label`, `index`; of equals the first. A text that the model answers is the label: its index is that of
    the labels, -1 where they don't list it."""

    def __init__(self, step: Argmax, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._spec = output_spec(signature, step.output, "argmax")
        shape = self._spec.shape
        self._picked = self._spec.dtype not in FLOATS and (len(shape) == 1 or shape[1:] == (1,))
        if not self._picked and (len(shape) != 2 or self._spec.dtype in (Dtype.BYTES, Dtype.BOOL)):
            raise PipelineMismatch(
                f"argmax needs numbers [rows, classes], or one class per row, but {step.output!r} is "
                f"{self._spec.dtype.value}{list(shape)}"
            )
        self._index = {label: at for at, label in enumerate(step.labels)}

    def cost(self, outputs: Tensors) -> Cost:
        return Cost.INLINE

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows)
        if self._picked:
            return [self._given(row, value) for row, value in enumerate(tensor.reshape(rows).tolist())]
        if not tensor.shape[1]:
            raise IllegalAnswer(f"output {self._spec.name!r} has no classes")
        finite = finite_rows(tensor)
        best = tensor.argmax(axis=1).tolist()
        return [
            self._indexed(row, best[row]) if finite[row] else not_finite(self._spec.name, row)
            for row in range(rows)
        ]

    def _given(self, row: int, value: object) -> RowAnswer:
        if isinstance(value, bytes | str):
            label = value.decode(errors="replace") if isinstance(value, bytes) else value
            return {"label": label, "index": self._index.get(label, -1)}
        return self._indexed(row, int(str(int(bool(value))) if isinstance(value, bool) else str(value)))

    def _indexed(self, row: int, index: int) -> RowAnswer:
        labels = self._step.labels
        if labels and not 0 <= index < len(labels):
            return IllegalAnswer(
                f"output {self._spec.name!r} gives class {index}, and there are {len(labels)} labels", row
            )
        return {"label": labels[index] if labels else str(index), "index": index}
