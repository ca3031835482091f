"""Recipes: what engines are made of a version, and what they must prove."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.identity import TargetName
from registry.contract.versions import DatasetRef
from registry.contract.wire import LARGEST, Command, Wire, added


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
    speed: source / engine time ≥ `min_speed_ratio` (None: static and dynamic
    INT8 must be as fast as the source; the others, which are made for their size, have no gate).

    `batch_mates`: of an engine whose answers depend on the rows that share a batch: `refused`, or `alone`
    (it is taken, and runs row by row), or `accepted` (it is batched all the same).
    """

    min_cosine: float = 0.98
    min_sqnr_db: float = 10.0
    max_flip_rate: float = 0.05
    max_loss: float = Field(default=0.01, gt=0, lt=1)
    min_speed_ratio: float | None = None
    golden_max_abs: float = Field(default=1e-4, ge=0)
    batch_mates: Literal["refused", "alone", "accepted"] = added("refused")


Calibrator = Literal["minmax", "entropy", "percentile", "mse"]


class Int8Options(Wire):
    """`operators`: the ONNX operator types that are quantised; empty: the precision's default set.

    `percentile`: what the calibrator of that name keeps of a tensor's values, in percent; both tails lose
    alike. `block`: weights that share a scale in the weight-only precisions (along the summed axis).
    `reduce_range`: weights in 7 bits, so that sums of U8S8 products don't saturate on x86 CPUs without VNNI.
    """

    operators: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    per_channel: bool = True
    calibrator: Calibrator = "minmax"
    percentile: float = added(99.99, gt=50, lt=100)
    block: Literal[16, 32, 64, 128, 256] = added(32)
    reduce_range: bool = added(False)


class SearchOptions(Wire):
    """Search instead of failing: when INT8 misses a gate, other calibrators, granularities, operators and
    exclusions are tried, until one passes all gates or the budget is spent (the recipe's own included)."""

    candidates: int = Field(default=24, ge=1, le=500)
    seconds: float = Field(default=3600, gt=0, le=86_400)


class PruneOptions(Wire):
    """Sets the share `sparsity` of each layer's weights to zero, those of the least magnitude first."""

    sparsity: float = Field(gt=0, lt=1)
    operators: tuple[str, ...] = ("Conv", "Gemm", "MatMul")
    exclude_nodes: tuple[str, ...] = ()


class ImportOptions(Wire):
    """How a framework's files become ONNX. `exporter`: for PyTorch; `auto` takes the first that works.

    `accept_threshold_flips`: build trees although values near their thresholds change sides as FP32.
    """

    exporter: Literal["auto", "dynamo", "legacy"] = "auto"
    accept_threshold_flips: bool = False


class Limits(Wire):
    """Of every step's subprocess."""

    step_timeout_s: float = Field(default=1800, gt=0, le=86_400)
    step_memory_mib: int = Field(default=8192, ge=256, le=1 << 24)


class Recipe(Command):
    """`optimise` False keeps the graph as it came. Data sets may be left out where no gate needs them."""

    precisions: tuple[Precision, ...] = (Precision.FP32,)
    targets: tuple[TargetName, ...] = ("ort.cpu",)
    calibration: DatasetRef | None = None
    validation: DatasetRef | None = None
    optimise: bool = True
    opset: int | None = Field(default=None, ge=17, le=LARGEST)
    importing: ImportOptions = added(ImportOptions())
    int8: Int8Options = Int8Options()
    search: SearchOptions | None = added(None)
    prune: PruneOptions | None = added(None)
    tolerances: Tolerances = Tolerances()
    limits: Limits = Limits()
