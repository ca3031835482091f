"""Recipes: what engines are made of a version, and what they must prove."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.identity import TargetName
from registry.contract.versions import DatasetRef
from registry.contract.wire import Command, Wire, added


class Precision(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    INT8_STATIC = "int8-static"
    INT8_DYNAMIC = "int8-dynamic"
    INT8_WEIGHT_ONLY = "int8-weight-only"
    INT4_GROUP = "int4-group"


class Tolerances(Wire):
    """Limits of the build's gates.

    parity: cosine ≥ `min_cosine` and SQNR ≥ `min_sqnr_db` per output, flips ≤ `max_flip_rate`;
    validation: upper 95 % bound of the loss (of flips, without labels) ≤ `max_loss`;
    speed: source p50 / engine p50 ≥ `min_speed_ratio` (None: no gate; precisions below FP32 default to 1).
    """

    min_cosine: float = 0.98
    min_sqnr_db: float = 10.0
    max_flip_rate: float = 0.05
    max_loss: float = Field(default=0.01, gt=0, lt=1)
    min_speed_ratio: float | None = None
    golden_max_abs: float = Field(default=1e-4, ge=0)


class Int8Options(Wire):
    """`operators`: the ONNX operator types that are quantised; empty: the precision's default set."""

    operators: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    per_channel: bool = True
    calibrator: Literal["minmax"] = "minmax"


class ImportOptions(Wire):
    """How a framework's files become ONNX. `exporter`: for PyTorch; `auto` takes the first that works.

    `accept_threshold_flips`: build trees although values near their thresholds change sides as FP32.
    """

    exporter: Literal["auto", "dynamo", "legacy"] = "auto"
    accept_threshold_flips: bool = False


class Limits(Wire):
    """Of every step's subprocess."""

    step_timeout_s: float = Field(default=1800, gt=0, le=86_400)
    step_memory_mib: int = Field(default=8192, ge=256)


class Recipe(Command):
    """`optimise` False keeps the graph as it came. Data sets may be left out where no gate needs them."""

    precisions: tuple[Precision, ...] = (Precision.FP32,)
    targets: tuple[TargetName, ...] = ("ort.cpu",)
    calibration: DatasetRef | None = None
    validation: DatasetRef | None = None
    optimise: bool = True
    opset: int | None = Field(default=None, ge=17)
    importing: ImportOptions = added(ImportOptions())
    int8: Int8Options = Int8Options()
    tolerances: Tolerances = Tolerances()
    limits: Limits = Limits()
