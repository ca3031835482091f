"""Engines: what one build made for one precision and target, with the reports that prove it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.identity import Digest, TargetName
from registry.contract.recipes import Precision
from registry.contract.versions import DatasetRef
from registry.contract.wire import Wire


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
