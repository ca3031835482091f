"""Signal and noise of one tensor over rows. Pure."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from builder.data.samples import Array

# An axis with more positions than this is one of places, not of channels.
MOST_CHANNELS = 1024
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Noise:
    """Add rows, then read the figures."""

    signal: float = 0.0
    noise: float = 0.0
    _channels: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)

    def add(self, wanted: Array, got: Array) -> None:
        """Raises ValueError for another shape."""
        if wanted.shape != got.shape:
            raise ValueError(f"shape {list(got.shape)} instead of {list(wanted.shape)}")
        left = wanted.astype(np.float64)
        apart = (got.astype(np.float64) - left) ** 2
        square = left**2
        self.signal += float(square.sum())
        self.noise += float(apart.sum())
        for axis in {1, wanted.ndim - 1}:
            if 0 < axis < wanted.ndim and 1 < wanted.shape[axis] <= MOST_CHANNELS:
                others = tuple(one for one in range(wanted.ndim) if one != axis)
                self._add_channels(axis, square.sum(axis=others), apart.sum(axis=others))

    def _add_channels(self, axis: int, square: Floats, apart: Floats) -> None:
        before = self._channels.get(axis)
        if before is None:
            self._channels[axis] = (square, apart)
        elif before[0].shape == square.shape:
            self._channels[axis] = (before[0] + square, before[1] + apart)
        else:
            del self._channels[axis]  # a length, which changes from row to row

    @property
    def ratio(self) -> float:
        """Noise ÷ signal over all elements."""
        return _ratio(self.noise, self.signal)

    @property
    def by_channel(self) -> float:
        """The same, or its mean over channels (at most 1 each) where that is more."""
        parts = [self.ratio]
        for square, apart in self._channels.values():
            each = np.divide(apart, square, out=np.where(apart > 0, 1.0, 0.0), where=square > 0)
            parts.append(float(np.minimum(each, 1.0).mean()))
        return max(parts)

    @property
    def decibels(self) -> float | None:
        """None: no difference at all."""
        return decibels(self.ratio)


def _ratio(noise: float, signal: float) -> float:
    """Whatever isn't finite, or noise without a signal, is as much as can be."""
    if not math.isfinite(noise):
        return 1e99
    return min(noise / signal, 1e99) if signal > 0 else (1e99 if noise > 0 else 0.0)


def decibels(ratio: float) -> float | None:
    return None if ratio == 0 else max(-999.0, -10 * math.log10(ratio))
