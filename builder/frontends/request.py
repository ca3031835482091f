"""What a frontend is asked for, and what it hands back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.data.samples import Sample
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Signature, SourceOptions, TensorSpec
from serving.runtimes.dtypes import numpy_dtype

Array = npt.NDArray[Any]
# What most runtimes of today read.
DEFAULT_OPSET = 18


@dataclass(frozen=True, slots=True)
class Request:
    """`folder`: the version's files, `main`: the one that is the model. `samples`: rows to try it on."""

    folder: Path
    main: str
    signature: Signature
    source: SourceOptions
    options: ImportOptions
    opset: int | None
    max_rows: int
    samples: Sequence[Sample]

    @property
    def path(self) -> Path:
        return self.folder / self.main

    @property
    def wanted_opset(self) -> int:
        return self.opset or DEFAULT_OPSET


@dataclass(frozen=True, slots=True)
class Probe:
    """A row beside a threshold, in the framework's own precision: float64[features].

    `share`: how far beside, as a part of the feature's range.
    """

    feature: str
    threshold: float
    share: float
    row: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """The contract's inputs as one table: a single input [rows, features], or one input for each feature."""

    specs: tuple[TensorSpec, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.specs[0].dtype)

    def rows(self, inputs: Mapping[str, Array]) -> Array:
        """[rows, features]"""
        if len(self.specs) == 1:
            return inputs[self.specs[0].name]
        return np.concatenate([inputs[spec.name].reshape(-1, 1) for spec in self.specs], axis=1)

    def inputs(self, rows: Array) -> dict[str, Array]:
        """In the contract's precision."""
        cast = rows.astype(self.dtype)
        if len(self.specs) == 1:
            return {self.specs[0].name: cast}
        return {
            spec.name: np.ascontiguousarray(cast[:, at : at + 1] if len(spec.shape) > 1 else cast[:, at])
            for at, spec in enumerate(self.specs)
        }


@dataclass(frozen=True, slots=True)
class Converted:
    """A model that was written, and the framework's own answers to compare it with.

    `reference`: contract inputs → contract outputs. `produced`: the ONNX outputs in the order of the
    contract's outputs, which they stand for. `notes`: what people should know of how it was made. `decide`:
    the outputs for float64[rows, features] as the framework itself takes them, where there are `probes` to
    put to it.
    """

    exporter: str
    produced: tuple[str, ...]
    reference: Callable[[Mapping[str, Array]], dict[str, Array]]
    notes: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    decide: Callable[[npt.NDArray[np.float64]], dict[str, Array]] | None = None
    table: Table | None = None
