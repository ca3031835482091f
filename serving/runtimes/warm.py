"""Runs an engine before callers do, so that no first hit of a batch size is slow."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from registry.contract.counters import BATCH_BUCKETS
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.dtypes import numpy_dtype
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import Array, LoadedEngine, Tensors

_VARYING = 16


@dataclass(frozen=True, slots=True)
class WarmRun:
    """Seconds of the first and the second run of a batch of `rows`."""

    rows: int
    first_s: float
    again_s: float


@dataclass(frozen=True, slots=True)
class WarmUp:
    """`skipped` says why made-up inputs stopped it; with an example it is always empty."""

    runs: tuple[WarmRun, ...]
    skipped: str = ""


def batch_sizes(signature: Signature, max_rows: int) -> tuple[int, ...]:
    """The buckets up to `max_rows`, and it itself; only the fixed one where the batch axis is fixed."""
    fixed = [spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], int)]
    if fixed:
        return (int(fixed[0]),)
    sizes = {size for size in BATCH_BUCKETS if size <= max_rows} | {max_rows}
    doubled = BATCH_BUCKETS[-1] * 2
    while doubled < max_rows:
        sizes.add(doubled)
        doubled *= 2
    return tuple(sorted(sizes))


def warm(engine: LoadedEngine, max_rows: int, example: Tensors | None = None) -> WarmUp:
    """Runs each batch size twice.

    `example` holds one row per input. Without it inputs are made up of the signature (zeros for integers,
    small numbers for floats, varying axes of 16), which a model with inner constraints may refuse: that is
    no fault of the engine and is told in `skipped`. With an example every error is raised.
    """
    runs: list[WarmRun] = []
    try:
        for rows, inputs in _inputs(engine.signature, max_rows, example):
            first = _timed(engine, inputs)
            runs.append(WarmRun(rows, first, _timed(engine, inputs)))
    except RuntimeFault as error:
        if example:
            raise
        return WarmUp(tuple(runs), str(error))
    return WarmUp(tuple(runs))


def _inputs(
    signature: Signature, max_rows: int, example: Tensors | None
) -> Iterator[tuple[int, dict[str, Array]]]:
    for rows in batch_sizes(signature, max_rows):
        if example:
            yield rows, {name: np.repeat(row[:1], rows, axis=0) for name, row in example.items()}
        else:
            yield rows, {spec.name: _made_up(spec, rows) for spec in signature.inputs}


def _made_up(spec: TensorSpec, rows: int) -> Array:
    shape = tuple(
        size if isinstance(size, int) else rows if axis == 0 else _VARYING
        for axis, size in enumerate(spec.shape)
    )
    if spec.dtype is Dtype.BYTES:
        return np.full(shape, "", dtype=np.object_)
    count = int(np.prod(shape, dtype=np.int64))
    if numpy_dtype(spec.dtype).kind == "f":
        return np.linspace(-1, 1, count).astype(numpy_dtype(spec.dtype)).reshape(shape)
    return np.zeros(shape, dtype=numpy_dtype(spec.dtype))


def _timed(engine: LoadedEngine, inputs: Tensors) -> float:
    started = time.perf_counter()
    engine.infer(inputs)
    return time.perf_counter() - started
