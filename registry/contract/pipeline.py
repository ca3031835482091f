"""Declarative pre- and post-processing: the same description in training, builder and node.

Implementations are in `serving.pipeline`. A raw input is bytes; pre-processing makes the engine's input
tensors of it; post-processing makes one answer (a mapping of field to value) per row of the outputs.
"""

from typing import Annotated, Literal

from pydantic import Field

from registry.contract.wire import Wire


class ByteWindow(Wire):
    """The two ends of a byte string as token ids, int32[head + tail].

    At most `block` bytes are read at each end; ASCII white space is stripped at the outer side; the first
    `head` and the last `tail` bytes are kept; what is missing is `pad` (the head is padded behind, the tail
    before). `offset` shifts both windows to the right, for models trained so.
    """

    kind: Literal["byte-window"] = "byte-window"
    output: str
    head: int = Field(ge=0, le=1 << 20)
    tail: int = Field(ge=0, le=1 << 20)
    block: int = Field(ge=1, le=1 << 24)
    pad: int = Field(ge=-(1 << 31), lt=1 << 31)
    offset: int = Field(default=0, ge=0, le=1 << 16)


class JsonTensors(Wire):
    """The raw input is a JSON object of tensor name → nested list; shapes and dtypes by the signature."""

    kind: Literal["json-tensors"] = "json-tensors"


PreStep = Annotated[ByteWindow | JsonTensors, Field(discriminator="kind")]


class Classify(Wire):
    """Scores of one output → `label`, `score`, `index` (the highest), and the `top` best as a list.

    `softmax` says that the output holds logits. `labels` has one entry per class; empty means the index
    is the label.
    """

    kind: Literal["classify"] = "classify"
    output: str
    labels: tuple[str, ...] = ()
    softmax: bool = False
    top: int = Field(default=1, ge=1, le=100)


class Regress(Wire):
    """One number of one output → `value`."""

    kind: Literal["regress"] = "regress"
    output: str


class Tensors(Wire):
    """Outputs as nested lists, under their own names."""

    kind: Literal["tensors"] = "tensors"


PostStep = Annotated[Classify | Regress | Tensors, Field(discriminator="kind")]


class PipelineSpec(Wire):
    """What stands before and behind the engine."""

    pre: tuple[PreStep, ...] = ()
    post: tuple[PostStep, ...] = ()
