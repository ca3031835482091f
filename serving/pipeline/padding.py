"""Rows of different lengths in one run, where the version's contract says how and that it is safe."""

from collections.abc import Sequence

import numpy as np

from registry.contract.pipeline import PipelineSpec, Tokenise
from registry.contract.versions import Signature
from serving.pipeline.batch import BatchKey
from serving.runtimes.protocol import Array, Tensors

SHORTEST = 16


class Filler:
    """Fills inputs up to the longest of a run, and cuts outputs back. Inputs and outputs take part where
    their shape has the axis name of the token ids."""

    def __init__(self, step: Tokenise, axis: str, signature: Signature) -> None:
        """`axis`: the name of the length's axis."""
        padding = step.padding
        assert padding is not None, "filler_of makes one only where there is a rule"
        fills = {step.ids: padding.id, step.types: padding.type_id}
        self._axes = {
            spec.name: (spec.shape.index(axis), fills.get(spec.name, 0))
            for spec in signature.inputs
            if axis in spec.shape
        }
        self._cuts = {spec.name: spec.shape.index(axis) for spec in signature.outputs if axis in spec.shape}
        self._ids = step.ids
        self._left = padding.side == "left"

    @property
    def cuts(self) -> bool:
        """True when outputs have the length too."""
        return bool(self._cuts)

    def length(self, inputs: Tensors) -> int:
        return int(inputs[self._ids].shape[1])

    def key(self, inputs: Tensors) -> BatchKey:
        """Equal for rows whose lengths round up to the same power of two: a short row never pays for a long
        one."""
        return tuple(
            (name, tensor.dtype.str, self._rounded(name, tensor.shape)[1:])
            for name, tensor in sorted(inputs.items())
        )

    def _rounded(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        found = self._axes.get(name)
        if found is None:
            return shape
        at = found[0]
        bucket = max(SHORTEST, 1 << (shape[at] - 1).bit_length()) if shape[at] else SHORTEST
        return (*shape[:at], bucket, *shape[at + 1 :])

    def join(self, requests: Sequence[Tensors]) -> dict[str, Array]:
        """One batch, in order, filled up to the longest."""
        longest = max(self.length(inputs) for inputs in requests)
        return {
            name: np.concatenate([self._filled(name, inputs[name], longest) for inputs in requests])
            for name in requests[0]
        }

    def cut(self, outputs: Tensors, length: int) -> dict[str, Array]:
        """A request's own outputs, of the length that it sent."""
        return {name: self._shortened(name, tensor, length) for name, tensor in outputs.items()}

    def _filled(self, name: str, tensor: Array, longest: int) -> Array:
        found = self._axes.get(name)
        if found is None or tensor.shape[found[0]] == longest:
            return tensor
        at, fill = found
        missing = longest - tensor.shape[at]
        widths = [(0, 0)] * tensor.ndim
        widths[at] = (missing, 0) if self._left else (0, missing)
        return np.pad(tensor, widths, constant_values=fill)

    def _shortened(self, name: str, tensor: Array, length: int) -> Array:
        at = self._cuts.get(name)
        if at is None or tensor.shape[at] <= length:
            return tensor
        start = tensor.shape[at] - length if self._left else 0
        return tensor[(slice(None),) * at + (slice(start, start + length),)]


def filler_of(spec: PipelineSpec, signature: Signature) -> Filler | None:
    """None where rows of different lengths never share a run."""
    for step in spec.pre:
        if isinstance(step, Tokenise) and step.padding is not None and step.padding.mixes:
            ids = next((tensor for tensor in signature.inputs if tensor.name == step.ids), None)
            if ids is not None and len(ids.shape) == 2 and isinstance(ids.shape[1], str):
                return Filler(step, ids.shape[1], signature)
    return None
