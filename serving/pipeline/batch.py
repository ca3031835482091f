"""Requests' tensors → one batch, and its outputs → each request's own rows."""

from collections.abc import Sequence

import numpy as np

from serving.pipeline.errors import IllegalAnswer
from serving.runtimes.protocol import Array, Tensors

BatchKey = tuple[tuple[str, str, tuple[int, ...]], ...]


def batch_key(tensors: Tensors) -> BatchKey:
    """Requests with equal keys may share a batch: name, dtype and full shape behind the batch axis."""
    return tuple((name, tensor.dtype.str, tensor.shape[1:]) for name, tensor in sorted(tensors.items()))


def concat(requests: Sequence[Tensors]) -> dict[str, Array]:
    """Requests of one key, in order, along the batch axis. A single one is handed on without a copy."""
    first = requests[0]
    if len(requests) == 1:
        return dict(first)
    return {name: np.concatenate([request[name] for request in requests]) for name in first}


def split(outputs: Tensors, rows: Sequence[int]) -> list[dict[str, Array]]:
    """Each request's own rows, as views. `rows`: what each request put in, in order.

    Raises IllegalAnswer when an output has not as many rows as went in: nobody may get another's row.
    """
    total = sum(rows)
    for name, tensor in outputs.items():
        if not tensor.ndim or tensor.shape[0] != total:
            raise IllegalAnswer(f"output {name!r} has shape {list(tensor.shape)} for {total} rows of input")
    if len(rows) == 1:
        return [dict(outputs)]
    parts: list[dict[str, Array]] = []
    at = 0
    for count in rows:
        parts.append({name: tensor[at : at + count] for name, tensor in outputs.items()})
        at += count
    return parts
