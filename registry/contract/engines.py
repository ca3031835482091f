"""Engines: what one build made for one precision and target, with the reports that prove it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.identity import Digest, TargetName
from registry.contract.recipes import Calibrator, Precision
from registry.contract.versions import DatasetRef, MetricName
from registry.contract.wire import Whole, Wire, added


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
    rows: Whole
    shapes: tuple[tuple[Whole, ...], ...]
    outputs: tuple[OutputParity, ...]
    flips: Whole | None = None
    flip_rate: float | None = None
    batch_invariant: bool
    batch_max_abs: float
    worst_rows: tuple[str, ...] = ()


class GoldenReport(Wire):
    """`first_difference` names pair, tensor, element, wanted and got."""

    pairs: Whole
    passed: bool
    first_difference: str | None = None


class ValidationReport(Wire):
    """Paired over the same rows. `loss_upper` is the one-sided 95 % bound of what the engine loses.

    With labels it bounds source − engine in `metric`, for `mae` and `rmse` as a part of the source's own
    (Tango's bound for `accuracy` and `exact_match`, a paired bootstrap over rows for the others); `n01` rows
    are better in the engine, `n10` in the source. Without labels `loss_upper` is the Clopper–Pearson bound
    of the flip rate.
    """

    dataset: DatasetRef
    form: Literal["raw", "tensors"]
    rows: Whole
    labelled: bool
    source_metric: float | None
    engine_metric: float | None
    n01: Whole
    n10: Whole
    flips: Whole
    flip_upper: float
    loss_upper: float
    outcome: Literal["accepted", "refused", "insufficient"]
    metric: MetricName = added("accuracy")

    @property
    def higher_is_better(self) -> bool:
        return self.metric not in ("mae", "rmse")


class FeatureCoverage(Wire):
    """Of one feature of inputs or answers: `overlap` 1 is the same distribution, 0 none in common."""

    feature: str
    overlap: float
    psi: float
    flagged: bool


class CoverageReport(Wire):
    """The calibration set `dataset` beside the validation set `against`."""

    dataset: DatasetRef
    against: DatasetRef
    rows: Whole
    against_rows: Whole
    features: tuple[FeatureCoverage, ...]

    @property
    def flagged(self) -> tuple[FeatureCoverage, ...]:
        """Worst first."""
        return tuple(sorted((one for one in self.features if one.flagged), key=lambda one: one.overlap))


class BenchPoint(Wire):
    rows: Whole
    p50_ms: float
    p99_ms: float
    rows_per_s: float


class BenchReport(Wire):
    """`speed_ratio`: how many times faster than the source at one row. The median over pairs of runs, one of
    each right after the other, so that what else the machine does in some of them says nothing."""

    provider: str
    threads: Whole
    points: tuple[BenchPoint, ...]
    source_points: tuple[BenchPoint, ...]
    speed_ratio: float
    size_bytes: Whole
    source_size_bytes: Whole
    size_ratio: float
    load_ms: dict[str, float]
    memory_bytes: Whole
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
    counts: tuple[Whole, ...]


class NodeError(Wire):
    """What one operator adds by itself: the engine's operator fed with the source's own numbers.

    `error`: noise ÷ signal of its output, or the mean over its channels where that is more and no weights
    follow (a head whose small scores drown beside its large coordinates). `effect`: the same of the source's
    outputs, when this error alone is put into the source. `operations`: multiplications of one row, or of
    what doesn't multiply the numbers that it gives: what it costs in speed to leave it as it was.
    """

    node: str
    operator: str
    error: float
    effect: float
    sqnr_db: float | None = Field(description="None: no difference at all")
    operations: Whole = added(0, ge=0)


class BisectionReport(Wire):
    """The first operator whose own error explains that an engine is off.

    `confirmed`: the engine cut behind it is below the limit of signal to noise, and at least half of that
    noise is its own. `model` and `inputs` are digests: it alone, with inputs and what the source gives.
    """

    node: str
    operator: str
    confirmed: bool
    local_sqnr_db: float | None
    cut_sqnr_db: float | None
    model: Digest
    inputs: Digest
    ranking: tuple[NodeError, ...]
    says: str


class ClippedTensor(Wire):
    """`share` of the calibration set's values of one tensor that lie outside of its range."""

    tensor: str
    share: float


class CalibrationReport(Wire):
    """`clipped`: over all tensors; `worst`: those that lose most."""

    calibrator: Calibrator
    rows: Whole
    tensors: Whole
    clipped: float
    worst: tuple[ClippedTensor, ...] = ()


class PruningReport(Wire):
    """`sparsity`: share of zeros among the weights of the pruned layers, found in the file."""

    sparsity: float
    weights: Whole
    layers: Whole
    lowest_cosine: float
    lowest_sqnr_db: float | None = None


class CandidateReport(Wire):
    """One try of a search. `refused_by`: the gates that it missed, empty where it passed. `frontier`: no
    other was better in quality, speed and size together. `metric`: the validation's own."""

    name: str
    calibrator: Calibrator | None = None
    per_channel: bool
    reduce_range: bool = False
    operators: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    refused_by: tuple[str, ...] = ()
    reason: str
    cosine: float | None = None
    sqnr_db: float | None = None
    metric: float | None = None
    loss_upper: float | None = None
    speed_ratio: float | None = None
    size_ratio: float | None = None
    frontier: bool = False


class SearchReport(Wire):
    """`chosen`: the candidate that passed, None: none did. `ended`: why no more were tried."""

    tried: Whole
    chosen: str | None
    ended: Literal["found", "exhausted", "budget", "insufficient"]
    candidates: tuple[CandidateReport, ...]
    ranking: tuple[NodeError, ...] = ()
    says: str


class EngineReport(Wire):
    """What a worker hands in for one engine. `flip_bound` feeds the paired test of a release."""

    precision: Precision
    target: TargetName
    digest: Digest
    size: Whole
    memory_bytes: Whole
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
    input_shapes: dict[str, tuple[Whole | str, ...]] = {}
    batchable: bool = True
    coverage: CoverageReport | None = added(None)
    calibration: CalibrationReport | None = added(None)
    pruning: PruningReport | None = added(None)
    bisection: BisectionReport | None = added(None)
    search: SearchReport | None = added(None)


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
