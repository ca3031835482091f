"""A few rows as engine inputs, in one file: what shapes, parity and speed are tried on."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.pipeline.prepared import Place

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Sample:
    """One row: tensors with a batch axis of 1, and where it came from one the raw input, with the place of
    an image in them (not kept by `write_samples`)."""

    key: str
    tensors: Tensors
    raw: bytes | None = None
    place: Place | None = None


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Equal samples give equal bytes."""
    names = sorted(samples[0].tensors)
    arrays: dict[str, Array] = {
        "keys": np.array([sample.key for sample in samples]),
        "names": np.array(names),
    }
    for at, sample in enumerate(samples):
        for column, name in enumerate(names):
            tensor = sample.tensors[name]
            arrays[f"tensor.{at}.{column}"] = tensor.astype(np.str_) if tensor.dtype == object else tensor
        if sample.raw is not None:
            arrays[f"raw.{at}"] = np.frombuffer(sample.raw, dtype=np.uint8)
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def read_samples(path: Path) -> list[Sample]:
    found: list[Sample] = []
    with np.load(path, allow_pickle=False) as stored:
        names = [str(name) for name in stored["names"]]
        for at, key in enumerate(stored["keys"]):
            raw = stored[f"raw.{at}"].tobytes() if f"raw.{at}" in stored.files else None
            tensors = {name: stored[f"tensor.{at}.{column}"] for column, name in enumerate(names)}
            found.append(Sample(str(key), tensors, raw))
    return found


def fingerprint(tensors: Tensors) -> str:
    """Equal for equal rows, whatever data set they lie in."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        plain = tensor.astype(np.str_) if tensor.dtype == object else np.ascontiguousarray(tensor)
        kind = "str" if plain.dtype.kind in "SU" else plain.dtype.str
        digest.update(f"{name}\0{kind}\0{plain.shape}\0".encode())
        digest.update("\0".join(map(str, plain.ravel())).encode() if kind == "str" else plain.tobytes())
    return digest.hexdigest()


def stack(rows: Sequence[Tensors]) -> dict[str, Array]:
    """Rows of equal shapes → one batch."""
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def shapes(tensors: Tensors) -> tuple[tuple[int, ...], ...]:
    """Of all tensors without the batch axis, in the names' order: rows of equal shapes fit in one batch."""
    return tuple(tensors[name].shape[1:] for name in sorted(tensors))


def batches(samples: Sequence[Sample], size: int) -> Iterator[list[Sample]]:
    """Runs of neighbours with equal shapes, at most `size` long, in order."""
    group: list[Sample] = []
    for sample in samples:
        if group and (len(group) == size or shapes(group[0].tensors) != shapes(sample.tensors)):
            yield group
            group = []
        group.append(sample)
    if group:
        yield group
