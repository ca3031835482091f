"""Stable's earlier quantiles on the route's bins: where a run is slow and an answer is in a tail. Pure.

Fixed when a release starts and kept with its trial: both arms are cut at the same places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from registry.contract.counters import (
    BATCH_BUCKETS,
    ERROR_OUTCOMES,
    LATENCY_BINS,
    CounterEdges,
    ObservableEdges,
)
from registry.drift.cells import Cells
from registry.statistics import cuts
from registry.statistics.arrays import Stateful
from registry.statistics.batch import Layout, Mix, MixKind
from registry.statistics.twosample import Side

LEAST_TIMED = 100
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Tail(Stateful):
    """Answers of `observable` below (or above) the bin edge number `at`, 1 ≤ at < bins."""

    observable: str
    side: Side
    at: int

    @property
    def name(self) -> str:
        return f"{self.observable} {'low' if self.side is Side.BELOW else 'high'}"


@dataclass(frozen=True, slots=True)
class Baseline(Stateful):
    """slow: per batch-size bucket the first latency bin that counts as slow; LATENCY_BINS: not known, so
    runs of that size are not compared. tails: in the order of the layout."""

    slow: tuple[int, ...]
    tails: tuple[Tail, ...]


def baseline(edges: CounterEdges, counts: Mapping[str, Cells]) -> Baseline:
    """From what stable counted before: fields by name, on these edges. What was never counted has no cut."""
    tails: list[Tail] = []
    for observable in edges.observables:
        cells = counts.get(f"observable.{observable.name}")
        if observable.kind == "class" or observable.bins < 2:
            continue
        if observable.kind == "score":
            at = _low(observable, cells)
            tails += [Tail(observable.name, Side.BELOW, at)] if at is not None else []
        elif cells is not None:
            low, high = (cuts.cut(cells.astype(float), quantile) for quantile in cuts.OUTER_VALUES)
            tails += [Tail(observable.name, Side.BELOW, low), Tail(observable.name, Side.ABOVE, high)]
    return Baseline(
        slow=tuple(_slow(counts.get(f"engine_us.{size}")) for size in BATCH_BUCKETS), tails=tuple(tails)
    )


def low_edge(observable: ObservableEdges, cells: Cells | None) -> float | None:
    """The bin edge at stable's P10: what a route's `low` is set to, so that pairs and rates are cut alike."""
    if observable.kind == "class" or observable.bins < 2 or cells is None or not cells.any():
        return None
    return observable.edges[cuts.cut(cells.astype(float), cuts.LOW_SCORE) - 1]


def _low(observable: ObservableEdges, cells: Cells | None) -> int | None:
    if observable.low is not None and observable.low in observable.edges:
        return observable.edges.index(observable.low) + 1
    if cells is None or not cells.any():
        return None
    return cuts.cut(cells.astype(float), cuts.LOW_SCORE)


def _slow(cells: Cells | None) -> int:
    if cells is None or int(cells.sum()) < LEAST_TIMED:
        return LATENCY_BINS
    return cuts.cut(cells.astype(float), cuts.SLOW_RUN)


def same_bins(one: CounterEdges, other: CounterEdges) -> bool:
    """Can counts on these edges be added?"""
    return [each.model_copy(update={"low": None}) for each in one.observables] == [
        each.model_copy(update={"low": None}) for each in other.observables
    ]


def layout(edges: CounterEdges, known: Baseline) -> Layout:
    """The names along the axes of a release's batches."""
    return Layout(
        error_kinds=tuple(outcome.value for outcome in ERROR_OUTCOMES),
        size_buckets=tuple(str(size) for size in BATCH_BUCKETS),
        tails=tuple(tail.name for tail in known.tails),
        mixes=tuple(_mix(observable) for observable in edges.observables),
    )


def _mix(observable: ObservableEdges) -> Mix:
    if observable.kind == "class":
        return Mix(observable.name, MixKind.CLASS, (*observable.labels, OTHER))
    ends = ["-inf", *(f"{edge:g}" for edge in observable.edges), "inf"]
    bins = tuple(f"{low}..{high}" for low, high in pairwise(ends))
    return Mix(observable.name, MixKind.BINS, bins)
