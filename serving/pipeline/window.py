"""A series of numbers → windows of equal length."""

import numpy as np

from registry.contract.pipeline import Window
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.normalise import Normalise
from serving.pipeline.prepared import Cost, Prepared
from serving.pipeline.raw_json import json_cost, parsed
from serving.pipeline.specs import input_spec
from serving.runtimes.dtypes import numpy_dtype
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

_EXAMPLE = "[0.1, 0.2, …], or [[0.1, 7], [0.2, 8], …] with several channels, oldest first"


class WindowStep:
    """[windows, length], or with a channel axis at the side that the contract names."""

    def __init__(self, spec: Window, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        tensor = input_spec(signature, spec.output, "window")
        rank = len(tensor.shape)
        self._first = rank == 3 and spec.channels == "first"
        length = tensor.shape[2 if self._first else 1] if rank in (2, 3) else None
        if tensor.dtype in (Dtype.BYTES, Dtype.BOOL) or not (
            isinstance(length, str) or length == spec.length
        ):
            raise PipelineMismatch(
                f"window makes numbers [rows, {spec.length}] or with a channel axis, but {spec.output!r} is "
                f"{tensor.dtype.value}{list(tensor.shape)}"
            )
        channels = 1 if rank == 2 else tensor.shape[1 if self._first else 2]
        self._channels = channels if isinstance(channels, int) else None
        self._flat = rank == 2
        self._spec = spec
        self._dtype = numpy_dtype(tensor.dtype)
        self._normalise = Normalise("window", spec.mean, spec.std)

    def cost(self, size: int) -> Cost:
        return json_cost(size)

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError: no series, another number of channels, too short, too many windows."""
        series = self._series(raw)
        starts = self._starts(len(series))
        made = np.stack([series[start : start + self._spec.length] for start in starts])
        values = self._normalise(made, self._dtype)
        if self._flat:
            values = values[:, :, 0]
        elif self._first:
            values = values.transpose(0, 2, 1)
        return Prepared({self._spec.output: np.ascontiguousarray(values)})

    def _series(self, raw: bytes) -> Array:
        """float64[steps, channels], without what `offset` leaves out, filled up to one window."""
        found = parsed(raw, _EXAMPLE)
        try:
            series = np.array(found, dtype=np.float64)
        except (ValueError, TypeError):
            series = np.empty(())
        if series.ndim == 1:
            series = series[:, np.newaxis]
        if series.ndim != 2 or not isinstance(found, list) or not np.isfinite(series).all():
            raise InputError(
                "series",
                wanted="a list of numbers, or of lists with one number per channel",
                got="something else (text, null or lists of different lengths)",
                mend=f"send {_EXAMPLE}",
            )
        if self._channels is not None and series.shape[1] != self._channels:
            raise InputError(
                "series",
                wanted=f"{self._channels} numbers per step",
                got=f"{series.shape[1]}",
                mend="send every channel, in the order of training",
            )
        spec = self._spec
        series = series[: max(0, len(series) - spec.offset)]
        missing = spec.length - len(series)
        if missing <= 0:
            return series
        if spec.fill is None:
            raise InputError(
                "series",
                wanted=f"at least {spec.length + spec.offset} steps",
                got=f"{len(series) + min(spec.offset, len(series))} or fewer",
                mend="send a longer history",
            )
        return np.concatenate([np.full((missing, series.shape[1]), spec.fill), series])

    def _starts(self, steps: int) -> range:
        """Where windows begin, oldest first."""
        spec = self._spec
        last = steps - spec.length
        starts = (
            range(0, last + 1, spec.stride) if spec.align == "start" else range(last, -1, -spec.stride)[::-1]
        )
        if spec.take == "last":
            return starts[-1:]
        if len(starts) > spec.most:
            raise InputError(
                "series",
                wanted=f"at most {spec.most} windows",
                got=f"{len(starts)}",
                mend="send a shorter series, or its parts one by one",
            )
        return starts
