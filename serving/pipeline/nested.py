"""Outputs as nested lists."""

from typing import Any

from registry.contract.pipeline import Tensors as TensorsSpec
from registry.contract.versions import Signature
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.legality import finite_rows, not_finite, output_of
from serving.pipeline.prepared import Cost
from serving.runtimes.protocol import Array, Tensors

INLINE_NUMBERS = 20_000


class TensorsStep:
    """Each output under its own name, one row of it as a nested list (a plain value for one per row)."""

    def __init__(self, step: TensorsSpec, signature: Signature) -> None:
        self._step = step
        self._specs = signature.outputs
        for spec in signature.outputs:
            if not spec.shape:
                raise PipelineMismatch(f"output {spec.name!r} has no batch axis, so it has no rows to answer")

    def cost(self, outputs: Tensors) -> Cost:
        return (
            Cost.INLINE if sum(tensor.size for tensor in outputs.values()) <= INLINE_NUMBERS else Cost.WORKER
        )

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        answers: list[RowAnswer] = [{} for _ in range(rows)]
        for spec in self._specs:
            tensor = output_of(outputs, spec, rows)
            finite = finite_rows(tensor)
            for row, answer in enumerate(answers):
                if not isinstance(answer, dict):
                    continue
                if finite[row]:
                    answer[spec.name] = _plain(tensor[row])
                else:
                    answers[row] = not_finite(spec.name, row)
        return answers


def _plain(row: Array | str | bytes) -> Any:
    value = row.tolist() if hasattr(row, "tolist") else row
    return value.decode(errors="replace") if isinstance(value, bytes) else value
