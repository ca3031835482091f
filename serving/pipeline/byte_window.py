"""The two ends of a byte string as token ids."""

import numpy as np
import numpy.typing as npt

from registry.contract.pipeline import ByteWindow
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.prepared import Cost, Prepared


class ByteWindowStep:
    """Each end is a stream of the bytes read there, with endless padding on both sides of it.

    Head: the first `block` bytes, stripped of white space at their left; positions offset … offset + head.
    Tail: the last `block` bytes, stripped at their right; the `tail` positions that end `offset` behind the
    stream's last byte. So with an offset of k both windows lie k positions further right: the head loses its
    first k bytes, and the tail loses its first k and ends in k paddings.
    """

    def __init__(self, spec: ByteWindow, signature: Signature) -> None:
        self._spec = spec
        self._size = spec.head + spec.tail
        found = next((tensor for tensor in signature.inputs if tensor.name == spec.output), None)
        if found is None:
            raise PipelineMismatch(f"byte-window makes {spec.output!r}, which is no input of the signature")
        if found.dtype is not Dtype.INT32 or len(found.shape) != 2:
            raise PipelineMismatch(
                f"byte-window makes INT32[rows, {self._size}], but {spec.output!r} is "
                f"{found.dtype.value}{list(found.shape)}"
            )
        if isinstance(found.shape[1], int) and found.shape[1] != self._size:
            raise PipelineMismatch(
                f"byte-window makes {self._size} tokens (head + tail), but {spec.output!r} "
                f"takes {found.shape[1]}"
            )

    def cost(self, size: int) -> Cost:
        return Cost.INLINE

    def prepare(self, raw: bytes) -> Prepared:
        """One row: int32[1, head + tail]."""
        spec = self._spec
        row = np.full((1, self._size), spec.pad, dtype=np.int32)
        if spec.head:
            _place(row[0, : spec.head], raw[: spec.block].lstrip(), spec.offset)
        if spec.tail:
            stream = raw[-spec.block :].rstrip()
            _place(row[0, spec.head :], stream, len(stream) - spec.tail + spec.offset)
        return Prepared({spec.output: row})


def _place(window: npt.NDArray[np.int32], stream: bytes, start: int) -> None:
    """Copies what of the stream lies in the window that begins at its position `start`."""
    first = max(start, 0)
    piece = np.frombuffer(stream, dtype=np.uint8)[first : max(start + len(window), 0)]
    window[first - start : first - start + len(piece)] = piece
