"""Builds: a version × a recipe → engines, with the reports that prove them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from registry.contract.identity import Digest, TargetName
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


def _known_fields(value: object) -> object:
    """A recipe in an answer may have options of a later registry; only one that a person sends must not."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name in Recipe.model_fields}


class BuildCreate(Command):
    """`no_cache` runs every step again."""

    version: str = Field(description="MODEL@NUMBER")
    recipe: Recipe | None = None
    no_cache: bool = False
    priority: int = Field(default=0, ge=-100, le=100)


class BuildPhase(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepPhase(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CACHED = "cached"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"


class StepReport(Wire):
    """One step of one run. `engine` is `precision/target`, or None for the steps that all share.

    `reproduce` is a command line that runs the step again from its inputs.
    """

    name: str
    engine: str | None = None
    phase: StepPhase
    reason: str = ""
    key: Digest | None = None
    inputs: dict[str, Digest] = {}
    outputs: dict[str, Digest] = {}
    started_s: float = 0.0
    duration_s: float | None = None
    peak_memory_bytes: int | None = None
    reproduce: str = ""


class OutputParity(Wire):
    """Of one output: engine against source, over all parity rows."""

    output: str
    cosine: float
    sqnr_db: float | None = Field(description="None: no difference at all")
    max_abs: float
    max_rel: float
    finite: bool
    constant: bool


class ParityReport(Wire):
    rows: int
    shapes: tuple[tuple[int, ...], ...]
    outputs: tuple[OutputParity, ...]
    flips: int | None = None
    flip_rate: float | None = None
    batch_invariant: bool
    batch_max_abs: float
    worst_rows: tuple[str, ...] = ()


class GoldenReport(Wire):
    """`first_difference` names pair, tensor, element, wanted and got."""

    pairs: int
    passed: bool
    first_difference: str | None = None


class ValidationReport(Wire):
    """Paired over the same rows. `loss_upper` is the one-sided 95 % Tango bound of source − engine.

    With labels `n01` rows are right in the engine only, `n10` in the source only; without labels
    `loss_upper` is the Clopper–Pearson bound of the flip rate.
    """

    dataset: DatasetRef
    form: Literal["raw", "tensors"]
    rows: int
    labelled: bool
    source_metric: float | None
    engine_metric: float | None
    n01: int
    n10: int
    flips: int
    flip_upper: float
    loss_upper: float
    outcome: Literal["accepted", "refused", "insufficient"]


class BenchPoint(Wire):
    rows: int
    p50_ms: float
    p99_ms: float
    rows_per_s: float


class BenchReport(Wire):
    """`speed_ratio` = source p50 / engine p50 at one row, measured alternately in one run."""

    provider: str
    threads: int
    points: tuple[BenchPoint, ...]
    source_points: tuple[BenchPoint, ...]
    speed_ratio: float
    size_bytes: int
    source_size_bytes: int
    size_ratio: float
    load_ms: dict[str, float]
    memory_bytes: int
    pre_ms: float | None = None
    post_ms: float | None = None


class GateOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    INSUFFICIENT = "insufficient"
    SKIPPED = "skipped"


class Gate(Wire):
    """`reason` is told to people word for word."""

    name: Literal["golden", "parity", "validation", "speed"]
    outcome: GateOutcome
    reason: str


class ScoreReference(Wire):
    """Validation-time distribution of one observable: the reference that live traffic is compared with."""

    observable: str
    kind: Literal["class", "score", "value", "count", "length"]
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...]


class EngineReport(Wire):
    """What a worker hands in for one engine. `flip_bound` feeds the paired test of a release."""

    precision: Precision
    target: TargetName
    digest: Digest
    size: int
    memory_bytes: int
    key: Digest
    tools: dict[str, str]
    quantised: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    gates: tuple[Gate, ...]
    golden: GoldenReport | None = None
    parity: ParityReport | None = None
    validation: ValidationReport | None = None
    bench: BenchReport | None = None
    references: tuple[ScoreReference, ...] = ()
    warnings: tuple[str, ...] = ()
    input_shapes: dict[str, tuple[int | str, ...]] = {}
    batchable: bool = True


class Engine(EngineReport):
    """`releasable` and `reasons` follow from the gates alone; policy may still allow *unproven*."""

    id: str
    version: str
    build: str
    arm: str | None = None
    releasable: bool
    unproven: bool
    reasons: tuple[str, ...]
    created_at: datetime


class Build(Wire):
    id: str
    version: str
    recipe: Annotated[Recipe, BeforeValidator(_known_fields)]
    phase: BuildPhase
    reason: str
    since: datetime
    attempt: int
    worker: str | None
    no_cache: bool
    steps: tuple[StepReport, ...]
    engines: tuple[Engine, ...]
    revision: int
    created_at: datetime
    created_by: str


class StepWrite(Wire):
    """A worker's report of one step, replacing the earlier one of that name and engine."""

    fence: int
    step: StepReport


class EngineWrite(Wire):
    """A worker's report of one engine, replacing the earlier one of that key in this build."""

    fence: int
    engine: EngineReport


class TaskFinish(Wire):
    """`reason` says what failed, in words a person can act on; empty when it did not."""

    fence: int
    failed: bool = False
    reason: str = ""


class CachedStep(Wire):
    """Result of a step that ran somewhere before under the same content key."""

    key: Digest
    outputs: dict[str, Digest]
    report: dict[str, object] = {}


CachedStepWrite = Annotated[CachedStep, Field(description="First writer wins; equal keys mean equal results")]
