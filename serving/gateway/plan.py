"""A version's contract, ready to run in a gateway: its pipeline, and what may share a run."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from registry.contract.versions import Signature, TensorSpec, VersionContract
from serving.control import ArmEntry
from serving.gateway.batching import LaneRules
from serving.gateway.faults import IllegalAnswer, PipelineFault
from serving.pipeline import errors as pipeline_errors
from serving.pipeline.answers import RowAnswer
from serving.pipeline.batch import batch_key
from serving.pipeline.processing import Postprocess, post, pre
from serving.runtimes.protocol import Array


@dataclass(frozen=True, slots=True)
class Plan:
    """`watched`: answers are made for every request, also for those that want tensors."""

    contract: VersionContract
    pre: Callable[[bytes], dict[str, Array]]
    post: Postprocess
    watched: bool
    together: bool
    rows_out: bool
    one_key: bool

    @classmethod
    def of(cls, entry: ArmEntry) -> "Plan":
        """Raises PipelineMismatch."""
        contract = entry.contract
        signature = contract.signature
        rows_in = _varies_in_rows(signature.inputs)
        rows_out = rows_in and _varies_in_rows(signature.outputs)
        return cls(
            contract=contract,
            pre=pre(contract.pipeline, signature),
            post=post(contract.pipeline, signature),
            watched=bool(contract.observables or contract.pipeline.post),
            together=entry.batchable and contract.batch.max_rows > 1 and rows_out,
            rows_out=rows_out,
            one_key=all(isinstance(axis, int) for spec in signature.inputs for axis in spec.shape[1:]),
        )

    @property
    def signature(self) -> Signature:
        return self.contract.signature

    @property
    def max_rows(self) -> int:
        return self.contract.batch.max_rows

    def rules(self, queue_rows: int, run_limit_s: float) -> LaneRules:
        return LaneRules(self.max_rows, self.together, self.rows_out, queue_rows, run_limit_s)

    def judge(self, outputs: dict[str, Array], rows: int) -> Sequence[RowAnswer]:
        """The legality check of one run's outputs: an answer or what is illegal in it for each row; nothing
        where no answer is wanted and all rows are legal. Raises IllegalAnswer, PipelineFault."""
        try:
            if self.watched:
                return self.post.rows(outputs, rows)
        except pipeline_errors.IllegalAnswer as error:
            raise IllegalAnswer(str(error)) from error
        except Exception as error:
            raise PipelineFault(f"post-processing failed: {type(error).__name__}: {error}") from error
        for name, array in outputs.items():
            if has_nan(array):
                return _nan_rows(name, array, rows)
        return ()

    def key(self, inputs: dict[str, Array]) -> Hashable:
        """Requests with equal keys may share a run. Where all shapes are fixed there is one key."""
        return None if self.one_key else batch_key(inputs)


def has_nan(array: Array) -> bool:
    """One pass without a temporary: the smallest element is NaN when any is."""
    return array.dtype.kind == "f" and bool(array.size) and math.isnan(array.min())


def _nan_rows(name: str, array: Array, rows: int) -> Sequence[RowAnswer]:
    """Where outputs have no batch axis the whole run is illegal."""
    illegal = pipeline_errors.IllegalAnswer(f"output {name!r} holds NaN")
    if not array.ndim or array.shape[0] != rows:
        return [illegal] * rows
    return [illegal if has_nan(array[row]) else {} for row in range(rows)]


def _varies_in_rows(specs: tuple[TensorSpec, ...]) -> bool:
    return all(spec.shape and isinstance(spec.shape[0], str) for spec in specs)
