"""Ranges of tensors, collected as a stream. Pure.

Memory depends on the number of tensors only; the result on neither chunks nor order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


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
