"""(x · scale − mean) / std, as training does it: in the tensor's own float type."""

from collections.abc import Sequence

import numpy as np

from serving.pipeline.errors import PipelineMismatch
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array


class Normalise:
    """`mean` and `std`: no number, one, or one per channel. `axis`: the channels' axis, behind the batch."""

    def __init__(
        self, step: str, mean: Sequence[float], std: Sequence[float], scale: float = 1.0, axis: int = -1
    ) -> None:
        """Raises PipelineMismatch."""
        if any(value == 0 for value in std):
            raise PipelineMismatch(f"{step}.std has a 0: nothing can be divided by it")
        self._step = step
        self._mean, self._std, self._scale, self._axis = tuple(mean), tuple(std), scale, axis

    @property
    def changes(self) -> bool:
        return bool(self._mean or self._std or self._scale != 1)

    def __call__(self, values: Array, dtype: "np.dtype[np.generic]") -> Array:
        """Raises InputError when there are not as many channels as numbers."""
        if not self.changes:
            return values.astype(dtype)
        wide: Array = values.astype(np.float64 if dtype == np.float64 else np.float32)
        if self._scale != 1:
            np.multiply(wide, wide.dtype.type(self._scale), out=wide)
        if self._mean:
            np.subtract(wide, self._along(self._mean, wide), out=wide)
        if self._std:
            np.divide(wide, self._along(self._std, wide), out=wide)
        return wide.astype(dtype, copy=False)

    def _along(self, numbers: tuple[float, ...], values: Array) -> Array:
        channels = values.shape[self._axis]
        if len(numbers) not in (1, channels):
            raise InputError(
                self._step,
                wanted=f"{len(numbers)} channels",
                got=f"{channels}",
                mend="send every channel, in the order of training",
            )
        shape = [1] * values.ndim
        shape[self._axis] = len(numbers)
        return np.asarray(numbers, dtype=values.dtype).reshape(shape)
