"""Verdicts: what the evidence says about a running release, with every figure that led to it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.wire import Wire


class VerdictKind(StrEnum):
    ADVANCE = "advance"
    HOLD = "hold"
    FREEZE = "freeze"
    ROLL_BACK = "roll_back"
    INCONCLUSIVE = "inconclusive"


class GateProgress(Wire):
    """One test beside its line. `value` and `threshold` share a unit; `n` is what was looked at.

    `wait_s`: how long it still needs at the present traffic; None where that can't be said.
    """

    name: str
    family: Literal["errors", "slow", "scores", "classes", "paired", "split", "distribution"]
    purpose: Literal["roll_back", "advance", "freeze", "shown"]
    value: float | None
    threshold: float | None
    n: int
    outcome: Literal["fired", "passed", "waiting", "not_enough_data", "differs"]
    sentence: str
    wait_s: float | None = None


class Verdict(Wire):
    kind: VerdictKind
    sentence: str
    gates: tuple[GateProgress, ...]
    canary_requests: int
    stable_requests: int
    pairs: int
    step: int
    generation: int
    at: datetime


class Look(Wire):
    """A stored look of the controller: counters' totals that it saw, and what it concluded."""

    seq: int
    verdict: Verdict


class Explanation(Wire):
    """`replayed` is computed anew from the stored counter batches; `matches`: it equals what was decided."""

    deployment: str
    release: int
    decided: Verdict | None
    replayed: Verdict | None
    matches: bool
    looks: tuple[Look, ...]


class Distribution(Wire):
    """Counts per bin of one observable, with its labels or edges."""

    observable: str
    kind: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...]
    n: int
    mean: float | None = None


class ArmWindow(Wire):
    """One arm in one window (or the reference, where `arm` is None)."""

    arm: str | None
    version: str | None
    role: Literal["stable", "canary", "reference"]
    assigned: int
    errors: int
    outcomes: dict[str, int]
    p50_ms: float | None
    p99_ms: float | None
    distributions: tuple[Distribution, ...]


class Distance(Wire):
    """PSI with its noise-corrected alert line (`alert` None: fewer than 300 on a side)."""

    observable: str
    between: tuple[str, str]
    psi: float
    js: float
    n: int = Field(description="The smaller side")
    alert: bool | None


class DriftWindow(Wire):
    deployment: str
    start: datetime
    end: datetime
    arms: tuple[ArmWindow, ...]
    distances: tuple[Distance, ...]
