"""Weights in 8 or 4 bits with one scale per group, activations as they are. Pure numpy.

The layout is that of ONNX Runtime's MatMulNBits: for each output column, groups of `block` neighbours along
the summed axis, asymmetric (a scale and a zero point per group), 4-bit numbers two to a byte, low one first.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Bits = Literal[4, 8]


@dataclass(frozen=True, slots=True)
class Grouped:
    """`weights` uint8[columns, groups, block · bits ÷ 8], `scales` float32[columns, groups], `zeros`
    uint8[columns, ⌈groups · bits ÷ 8⌉]."""

    weights: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]
    zeros: npt.NDArray[np.uint8]
    bits: Bits
    block: int
    rows: int

    def values(self) -> npt.NDArray[np.float32]:
        """float32[rows, columns]: the numbers that these bits stand for."""
        levels = _unpack(self.weights, self.bits).astype(np.float32)
        zeros = _unpack(self.zeros, self.bits)[:, : levels.shape[1], np.newaxis].astype(np.float32)
        found = (levels - zeros) * self.scales[:, :, np.newaxis]
        return found.reshape(len(found), -1)[:, : self.rows].T.astype(np.float32)


def group(matrix: npt.NDArray[Any], bits: Bits, block: int) -> Grouped:
    """`matrix` float[rows, columns], summed over its rows. The last group is filled up with zeros."""
    rows, columns = matrix.shape
    groups = -(-rows // block)
    padded = np.zeros((columns, groups * block), np.float32)
    padded[:, :rows] = matrix.T
    blocks = padded.reshape(columns, groups, block)
    most = (1 << bits) - 1
    low, high = np.minimum(blocks.min(axis=2), 0), np.maximum(blocks.max(axis=2), 0)
    scales = ((high - low) / most).astype(np.float32)
    scales[scales == 0] = 1
    zeros = np.clip(np.rint(-low / scales), 0, most)
    levels = np.clip(np.rint(blocks / scales[:, :, np.newaxis] + zeros[:, :, np.newaxis]), 0, most)
    return Grouped(
        _pack(levels.astype(np.uint8), bits), scales, _pack(zeros.astype(np.uint8), bits), bits, block, rows
    )


def _pack(levels: npt.NDArray[np.uint8], bits: Bits) -> npt.NDArray[np.uint8]:
    if bits == 8:
        return levels
    if levels.shape[-1] % 2:
        levels = np.concatenate([levels, np.zeros((*levels.shape[:-1], 1), np.uint8)], axis=-1)
    packed: npt.NDArray[np.uint8] = levels[..., ::2] | np.left_shift(levels[..., 1::2], 4)
    return packed


def _unpack(packed: npt.NDArray[np.uint8], bits: Bits) -> npt.NDArray[np.uint8]:
    if bits == 8:
        return packed
    found = np.stack([packed & 15, packed >> 4], axis=-1)
    return found.reshape(*packed.shape[:-1], -1)
