"""A version's contract, ready to run in a gateway: its pipeline, and what may share a run."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from registry.contract.pipeline import Ctc, Detect, Image, Tokenise, TokenText, Window
from registry.contract.versions import Signature, TensorSpec, VersionContract
from serving.control import ArmEntry
from serving.gateway.batching import LaneRules
from serving.gateway.faults import IllegalAnswer, PipelineFault
from serving.gateway.oip import Decoder
from serving.pipeline import errors as pipeline_errors
from serving.pipeline.answers import RowAnswer
from serving.pipeline.batch import batch_key
from serving.pipeline.files import Files
from serving.pipeline.padding import Filler, filler_of
from serving.pipeline.prepared import Cost
from serving.pipeline.processing import Postprocess, Preprocess, post, pre
from serving.runtimes.protocol import Array, Tensors

INLINE_FILE_BYTES = 256 << 10
"""A pipeline whose files are larger is never loaded here: reading a tokenizer would hold the loop."""
_DEAR = (Image, Tokenise, TokenText, Ctc, Detect)


@dataclass(frozen=True, slots=True)
class Plan:
    """`decode` reads requests that bring tensors. `pre` and `post` are None where they run in pipeline
    workers only. `watched`: answers are made for every request, also for those that want tensors. `many`: a
    raw input may make several rows."""

    contract: VersionContract
    decode: Decoder
    pre: Preprocess | None
    post: Postprocess | None
    filler: Filler | None
    watched: bool
    together: bool
    rows_out: bool
    one_key: bool
    many: bool

    @classmethod
    def of(cls, entry: ArmEntry, files: Files) -> "Plan":
        """Raises PipelineMismatch."""
        contract = entry.contract
        signature = contract.signature
        rows_in = _varies_in_rows(signature.inputs)
        rows_out = rows_in and _varies_in_rows(signature.outputs)
        together = entry.batchable and contract.batch.max_rows > 1 and rows_out
        inline = _inline(files)
        return cls(
            contract=contract,
            decode=Decoder(signature),
            pre=pre(contract.pipeline, signature, files) if inline else None,
            post=post(contract.pipeline, signature, files) if inline else None,
            filler=filler_of(contract.pipeline, signature) if together else None,
            watched=bool(contract.observables or contract.pipeline.post),
            together=together,
            rows_out=rows_out,
            one_key=all(isinstance(axis, int) for spec in signature.inputs for axis in spec.shape[1:]),
            many=any(isinstance(step, Window) and step.take == "all" for step in contract.pipeline.pre),
        )

    @property
    def signature(self) -> Signature:
        return self.contract.signature

    @property
    def dear(self) -> bool:
        """True when pipeline workers will be needed, so that they are started before the first request."""
        steps = (*self.contract.pipeline.pre, *self.contract.pipeline.post)
        return self.pre is None or any(isinstance(step, _DEAR) for step in steps)

    def prepares_apart(self, size: int) -> bool:
        """True when a raw input of so many bytes is for a pipeline worker."""
        return self.pre is None or self.pre.cost(size) is Cost.WORKER

    def judges_apart(self, outputs: Tensors) -> bool:
        """True when making answers of these outputs is for a pipeline worker."""
        return self.post is None or self.post.cost(outputs) is Cost.WORKER

    @property
    def max_rows(self) -> int:
        return self.contract.batch.max_rows

    def rules(self, queue_rows: int, run_limit_s: float) -> LaneRules:
        return LaneRules(self.max_rows, self.together, self.rows_out, queue_rows, run_limit_s)

    def judge(self, outputs: dict[str, Array], rows: int) -> Sequence[RowAnswer]:
        """The legality check of one run's outputs: an answer or what is illegal in it for each row; nothing
        where no answer is wanted and all rows are legal. Raises IllegalAnswer, PipelineFault."""
        if self.watched:
            return self.answers(outputs, rows)
        for name, array in outputs.items():
            if has_nan(array):
                return _nan_rows(name, array, rows)
        return ()

    def answers(self, outputs: Tensors, rows: int) -> Sequence[RowAnswer]:
        """Made here: `judges_apart` says for which outputs. Raises IllegalAnswer, PipelineFault."""
        assert self.post is not None, "judges_apart says where"
        try:
            return self.post.rows(outputs, rows)
        except pipeline_errors.IllegalAnswer as error:
            raise IllegalAnswer(str(error)) from error
        except Exception as error:
            raise PipelineFault(f"post-processing failed: {type(error).__name__}: {error}") from error

    def key(self, inputs: dict[str, Array]) -> Hashable:
        """Requests with equal keys may share a run. Where all shapes are fixed there is one key."""
        if self.filler is not None:
            return self.filler.key(inputs)
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


def _inline(files: Files) -> bool:
    try:
        return sum(path.stat().st_size for path in files.values()) <= INLINE_FILE_BYTES
    except OSError:
        return True  # the step that reads it says what is missing


def _varies_in_rows(specs: tuple[TensorSpec, ...]) -> bool:
    return all(spec.shape and isinstance(spec.shape[0], str) for spec in specs)
