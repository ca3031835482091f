"""Ranges and distributions of tensors, collected as a stream. Pure.

Memory depends on the number of tensors only; the results on neither chunks nor order: they are least and
greatest values, and whole counts in bins whose edges are fixed before the first value is counted.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 2048
# Values that are turned into float64 at a time.
BLOCK = 1 << 16

Ranges = Mapping[str, tuple[float, float]]
Counts = npt.NDArray[np.int64]


class NotFinite(ValueError):
    """A tensor held NaN or infinity: no range can be made of it."""

    def __init__(self, tensor: str) -> None:
        super().__init__(f"tensor {tensor!r} holds NaN or infinity")
        self.tensor = tensor


class MinMax:
    """Least and greatest value of every tensor that was seen, as float32."""

    def __init__(self) -> None:
        self._least: dict[str, np.float32] = {}
        self._greatest: dict[str, np.float32] = {}

    def update(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Raises NotFinite. Empty tensors say nothing."""
        for name, tensor in tensors.items():
            if tensor.size == 0:
                continue
            least, greatest = np.float32(tensor.min()), np.float32(tensor.max())
            if not (np.isfinite(least) and np.isfinite(greatest)):
                raise NotFinite(name)
            self._least[name] = min(self._least.get(name, least), least)
            self._greatest[name] = max(self._greatest.get(name, greatest), greatest)

    def merge(self, other: "MinMax") -> None:
        """As if everything that `other` saw had been seen here."""
        for name, least in other._least.items():
            self._least[name] = min(self._least.get(name, least), least)
        for name, greatest in other._greatest.items():
            self._greatest[name] = max(self._greatest.get(name, greatest), greatest)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Tensor → (least, greatest), sorted by name; −0 counts as 0."""
        return {
            name: (float(self._least[name]) + 0.0, float(self._greatest[name]) + 0.0)
            for name in sorted(self._least)
        }


class Histograms:
    """How often values fell into each of `bins` even bins between the least and the greatest value.

    The second pass over the same rows: `ranges` are those of the first. Values outside of them aren't
    counted. Tensors of any shape and of lengths that change from row to row: they are read flat.
    """

    def __init__(self, ranges: Ranges, bins: int = BINS) -> None:
        self._ranges = dict(ranges)
        self._bins = bins
        self._counts = {name: np.zeros(bins, np.int64) for name in self._ranges}

    def update(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Raises KeyError for a tensor that the first pass has not seen."""
        for name, tensor in tensors.items():
            if tensor.size == 0:
                continue
            low, high = self._ranges[name]
            counts = self._counts[name]
            if low == high:
                counts[0] += tensor.size
                continue
            flat = tensor.reshape(-1)
            for at in range(0, flat.size, BLOCK):
                block = flat[at : at + BLOCK].astype(np.float64)
                counts += np.histogram(block, self._bins, (low, high))[0]

    def merge(self, other: "Histograms") -> None:
        """As if everything that `other` counted had been counted here. The ranges must be the same."""
        assert other._ranges == self._ranges, "histograms of other ranges don't add up"
        for name, counts in other._counts.items():
            self._counts[name] += counts

    def counts(self) -> dict[str, Counts]:
        return dict(self._counts)
