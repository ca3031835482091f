"""One number per row."""

import numpy as np

from registry.contract.pipeline import Regress
from registry.contract.versions import Dtype, Signature
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import finite_rows, not_finite, output_of, output_spec
from serving.pipeline.prepared import Cost
from serving.runtimes.protocol import Array, Tensors


class RegressStep:
    """A float under the contract's field."""

    def __init__(self, step: Regress, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._spec = output_spec(signature, step.output, "regress")
        inner = self._spec.shape[1:]
        one = step.column is None and not any(isinstance(size, int) and size != 1 for size in inner)
        picked = step.column is not None and len(inner) == 1
        if self._spec.dtype in (Dtype.BYTES, Dtype.BOOL) or not self._spec.shape or not (one or picked):
            raise PipelineMismatch(
                f"regress needs one number per row (or a column of several), but {step.output!r} is "
                f"{self._spec.dtype.value}{list(self._spec.shape)}"
            )

    def cost(self, outputs: Tensors) -> Cost:
        return Cost.INLINE

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        column = self._column(output_of(outputs, self._spec, rows), rows)
        finite = finite_rows(column)
        values = column.astype(np.float64) * self._step.scale + self._step.offset
        return [
            self._answer(float(values[row]), row) if finite[row] else not_finite(self._spec.name, row)
            for row in range(rows)
        ]

    def _column(self, tensor: Array, rows: int) -> Array:
        column = self._step.column
        if column is None and tensor.size == rows:
            return tensor.reshape(rows)
        if column is not None and tensor.ndim == 2 and column < tensor.shape[1]:
            return tensor[:, column]
        wanted = "one per row" if column is None else f"at least {column + 1} per row"
        raise IllegalAnswer(f"output {self._spec.name!r} has shape {list(tensor.shape)}, not {wanted}")

    def _answer(self, value: float, row: int) -> RowAnswer:
        low, high = self._step.low, self._step.high
        if (low is not None and value < low) or (high is not None and value > high):
            low_text = "-∞" if low is None else f"{low:g}"
            high_text = "∞" if high is None else f"{high:g}"
            return IllegalAnswer(
                f"{self._step.field} is {value:g}, and the contract allows [{low_text}, {high_text}]",
                row,
            )
        return {self._step.field: value}
