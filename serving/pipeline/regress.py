"""One number per row."""

from registry.contract.pipeline import Regress
from registry.contract.versions import Dtype, Signature
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import finite_rows, not_finite, output_of, output_spec
from serving.runtimes.protocol import Tensors


class RegressStep:
    """`value`, a float."""

    fields = ("value",)

    def __init__(self, step: Regress, signature: Signature) -> None:
        self._spec = output_spec(signature, step.output, "regress")
        inner = self._spec.shape[1:]
        if (
            self._spec.dtype in (Dtype.BYTES, Dtype.BOOL)
            or not self._spec.shape
            or any(isinstance(size, int) and size != 1 for size in inner)
        ):
            raise PipelineMismatch(
                f"regress needs one number per row, but {step.output!r} is "
                f"{self._spec.dtype.value}{list(self._spec.shape)}"
            )

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        tensor = output_of(outputs, self._spec, rows)
        if tensor.size != rows:
            raise IllegalAnswer(f"output {self._spec.name!r} has shape {list(tensor.shape)}, not one per row")
        finite = finite_rows(tensor)
        values = tensor.reshape(rows).tolist()
        return [
            {"value": float(values[row])} if finite[row] else not_finite(self._spec.name, row)
            for row in range(rows)
        ]
