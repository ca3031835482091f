"""Integer counters on fixed edges: what nodes report and all verdicts are made of.

A key is (node, incarnation, worker, deployment, generation, arm); values are cumulative since the key
began; each report has a growing `seq` and a lower one is ignored. Counting is by the *assigned* arm.
"""

import math
from enum import StrEnum

from pydantic import Field

from registry.contract.identity import ArmId
from registry.contract.wire import LARGEST, Whole, Wire

CLASS_LIMIT = 200
SCORE_BINS = 64
LATENCY_FIRST_US = 50.0
LATENCY_RATIO = 1.02
LATENCY_BINS = 720
_LOG_RATIO = math.log(LATENCY_RATIO)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32)


class Outcome(StrEnum):
    """How a request that was assigned to an arm ended. Exactly one per request.

    `rejected` is the caller's own fault (bad input, own limit) and no error of the arm; `cancelled`: the
    caller went away; `died`: the process died with the request inside.
    """

    OK = "ok"
    ENGINE_ERROR = "engine_error"
    PIPELINE_ERROR = "pipeline_error"
    ILLEGAL_ANSWER = "illegal_answer"
    TIMEOUT = "timeout"
    SHED = "shed"
    FALLBACK = "fallback"
    DIED = "died"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


ERROR_OUTCOMES = (
    Outcome.ENGINE_ERROR,
    Outcome.PIPELINE_ERROR,
    Outcome.ILLEGAL_ANSWER,
    Outcome.TIMEOUT,
    Outcome.SHED,
    Outcome.FALLBACK,
    Outcome.DIED,
)


class ObservableEdges(Wire):
    """Bins of one observable, fixed by the route for all its arms.

    `class`: one bin per label, in this order, and a last one for every other. Numbers: bin i holds
    edges[i-1] ≤ x < edges[i]; so len(edges) + 1 bins. `low`: a value strictly below it counts as a low
    score in paired outcomes (stable's earlier P10); None while it is not known.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    low: float | None = None

    @property
    def bins(self) -> int:
        return len(self.labels) + 1 if self.kind == "class" else len(self.edges) + 1


class CounterEdges(Wire):
    """Edges belong to the route, never to a version: both arms are counted on the same ones."""

    observables: tuple[ObservableEdges, ...] = ()


def latency_bin(microseconds: float) -> int:
    """Bin of a duration: 0 below 50 µs, then steps of 2 %, the last one open (about 75 s)."""
    if microseconds < LATENCY_FIRST_US:
        return 0
    return min(LATENCY_BINS - 1, 1 + int(math.log(microseconds / LATENCY_FIRST_US) / _LOG_RATIO))


def latency_edge(index: int) -> float:
    """Upper edge of a latency bin, in µs."""
    return LATENCY_FIRST_US * LATENCY_RATIO**index


def batch_bucket(rows: int) -> int:
    """Index of the smallest bucket that holds `rows`; the last one is open."""
    for index, size in enumerate(BATCH_BUCKETS):
        if rows <= size:
            return index
    return len(BATCH_BUCKETS) - 1


def field_sizes(edges: CounterEdges) -> dict[str, int]:
    """Name → number of int64 cells, in file order. The one description of the counters' layout.

    `pairs.*`: of requests given to canary and stable (stored under the canary's key); `compared`: both
    answered.
    `pairs.<class>.in/out`: the canary's label where the arms differ / stable's label there.
    `pairs.<score>.canary_low/stable_low`: only that arm was below `low`.
    """
    sizes = {"assigned": 1}
    sizes.update({f"outcome.{outcome.value}": 1 for outcome in Outcome})
    sizes["total_us"] = LATENCY_BINS
    sizes.update({f"engine_us.{size}": LATENCY_BINS for size in BATCH_BUCKETS})
    for observable in edges.observables:
        sizes[f"observable.{observable.name}"] = observable.bins
    sizes.update(
        {f"pairs.{name}": 1 for name in ("n", "compared", "canary_failed", "stable_failed", "flips")}
    )
    for observable in edges.observables:
        if observable.kind == "class":
            sizes[f"pairs.{observable.name}.in"] = observable.bins
            sizes[f"pairs.{observable.name}.out"] = observable.bins
        else:
            sizes[f"pairs.{observable.name}.canary_low"] = 1
            sizes[f"pairs.{observable.name}.stable_low"] = 1
    return sizes


class SparseCells(Wire):
    """Non-zero cells of one field: parallel lists of index and cumulative value."""

    at: tuple[Whole, ...]
    n: tuple[Whole, ...]


class CounterReport(Wire):
    """Node and incarnation are those of the enclosing report."""

    worker: int = Field(ge=0, le=LARGEST)
    deployment: str
    generation: int = Field(ge=1, le=LARGEST)
    arm: ArmId
    seq: int = Field(ge=0, le=LARGEST)
    final: bool = False
    fields: dict[str, SparseCells]
