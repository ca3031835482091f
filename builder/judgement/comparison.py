"""How far an engine's outputs are from the source's. Pure; outputs come in row by row, nothing is kept."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from registry.contract.engines import OutputParity

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]

# Elements below this part of their row's largest one are noise: relative to them anything is large.
SMALLEST_SCALE = 1e-3


@dataclass(slots=True)
class _Sums:
    dot: float = 0.0
    source: float = 0.0
    engine: float = 0.0
    noise: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    finite: bool = True
    first_source: Array | None = None
    first_engine: Array | None = None
    source_varies: bool = False
    engine_varies: bool = False


@dataclass(slots=True)
class Comparison:
    """Add rows, then read the figures. `worst` keeps the keys of the rows with the most noise."""

    kept: int = 5
    rows: int = 0
    _sums: dict[str, _Sums] = field(default_factory=dict)
    _noise: list[tuple[float, str]] = field(default_factory=list)

    def add(self, key: str, source: Tensors, engine: Tensors) -> None:
        """Outputs of one row. Raises ValueError when names or shapes differ."""
        if source.keys() != engine.keys():
            raise ValueError(f"the source gives outputs {sorted(source)}, the engine {sorted(engine)}")
        worst = 0.0
        for name in source:
            sums = self._sums.setdefault(name, _Sums())
            worst = max(worst, _add(name, sums, source[name], engine[name]))
        self.rows += 1
        self._noise.append((worst, key))
        self._noise.sort(key=lambda pair: (-pair[0], pair[1]))
        del self._noise[self.kept :]

    def outputs(self) -> tuple[OutputParity, ...]:
        return tuple(_figures(name, sums, self.rows) for name, sums in self._sums.items())

    def worst(self) -> tuple[str, ...]:
        return tuple(key for noise, key in self._noise if noise > 0)


def _add(name: str, sums: _Sums, source: Array, engine: Array) -> float:
    """Returns the row's noise relative to its signal."""
    if source.shape != engine.shape:
        raise ValueError(
            f"output {name!r} has shape {list(source.shape)} from the source and {list(engine.shape)} from "
            "the engine"
        )
    left, right = _numbers(source, engine)
    _note_variation(sums, left, right)
    usable = np.isfinite(left)
    if not np.isfinite(right[usable]).all():
        sums.finite = False
        return math.inf
    left, right = left[usable & np.isfinite(right)], right[usable & np.isfinite(right)]
    if left.size == 0:
        return 0.0
    difference = np.abs(right - left)
    scale = float(np.abs(left).max())
    floor = max(scale * SMALLEST_SCALE, np.finfo(np.float64).tiny)
    signal, noise = float(left @ left), float(difference @ difference)
    sums.dot += float(left @ right)
    sums.source += signal
    sums.engine += float(right @ right)
    sums.noise += noise
    sums.max_abs = max(sums.max_abs, float(difference.max()))
    sums.max_rel = max(sums.max_rel, float((difference / np.maximum(np.abs(left), floor)).max()))
    return noise / signal if signal > 0 else (math.inf if noise > 0 else 0.0)


def _numbers(source: Array, engine: Array) -> tuple[Array, Array]:
    """Flat float64. Texts become ones, and where they differ a zero on the engine's side."""
    if source.dtype.kind in "OSU" or engine.dtype.kind in "OSU":
        same = np.array([str(a) == str(b) for a, b in zip(source.ravel(), engine.ravel(), strict=True)])
        return np.ones(same.size), same.astype(np.float64)
    return source.ravel().astype(np.float64), engine.ravel().astype(np.float64)


def _note_variation(sums: _Sums, source: Array, engine: Array) -> None:
    if sums.first_source is None or sums.first_engine is None:
        sums.first_source, sums.first_engine = source, engine
        return
    sums.source_varies |= not np.array_equal(source, sums.first_source, equal_nan=True)
    sums.engine_varies |= not np.array_equal(engine, sums.first_engine, equal_nan=True)


def _figures(name: str, sums: _Sums, rows: int) -> OutputParity:
    length = math.sqrt(sums.source) * math.sqrt(sums.engine)
    if sums.noise == 0:
        cosine = 1.0
    elif length == 0:
        cosine = 0.0
    else:
        cosine = min(1.0, sums.dot / length)
    decibels: float | None = None
    if sums.noise > 0:
        decibels = 10 * math.log10(sums.source / sums.noise) if sums.source > 0 else -math.inf
    return OutputParity(
        output=name,
        cosine=cosine if sums.finite else 0.0,
        sqnr_db=max(decibels, -999.0) if decibels is not None else None,
        max_abs=sums.max_abs,
        max_rel=sums.max_rel,
        finite=sums.finite,
        constant=rows > 1 and sums.source_varies and not sums.engine_varies,
    )


def deviation(wanted: Tensors, got: Tensors) -> float:
    """Largest difference of any element, relative to the largest one of its output; inf for another shape.

    What two runs that should agree are compared by: 0 is equal bits, 1e-3 is rounding, 1 is another answer.
    """
    worst = 0.0
    for name, tensor in wanted.items():
        if name not in got or got[name].shape != tensor.shape:
            return math.inf
        left, right = _numbers(tensor, got[name])
        if not np.array_equal(np.isfinite(left), np.isfinite(right)):
            return math.inf
        left, right = left[np.isfinite(left)], right[np.isfinite(right)]
        if left.size:
            scale = float(np.abs(left).max())
            difference = float(np.abs(left - right).max())
            worst = max(worst, difference / scale if scale > 0 else (math.inf if difference > 0 else 0.0))
    return worst
