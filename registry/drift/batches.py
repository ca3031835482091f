"""Deltas and routes as a batch of the statistics: one stratum per node and generation. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from registry.contract.counters import BATCH_BUCKETS, ERROR_OUTCOMES, LATENCY_BINS, CounterEdges, Outcome
from registry.contract.identity import ArmId
from registry.contract.routes import BASIS_POINTS, Route
from registry.drift.baseline import Baseline, Tail, layout, same_bins
from registry.drift.cells import Cells, Fields
from registry.drift.rollup import WINDOW_S, ArmDelta
from registry.statistics.arrays import Floats
from registry.statistics.batch import ArmCounts, Batch, MixPairs, PairCounts, SplitCounts, stable_only
from registry.statistics.twosample import Side

Stratum = tuple[str, int]


@dataclass(frozen=True)
class Compared:
    """The two arms of a release, and what they are counted on. `stable` None: a first release."""

    canary: ArmId
    stable: ArmId | None
    edges: CounterEdges
    baseline: Baseline


def build(deltas: Iterable[ArmDelta], routes: Mapping[int, Route], compared: Compared) -> Batch | None:
    """The batch between two looks, or None when nothing in the deltas may be judged.

    Left out: nodes with a gap (of both arms), generations without a known route or counted on other edges,
    and a canary's late answers in generations that give it no share.
    """
    usable = [delta for delta in deltas if _counted_alike(routes.get(delta.generation), compared)]
    silent = {(delta.node, delta.generation) for delta in usable if delta.gap}
    canary: dict[Stratum, Fields] = {}
    stable: dict[Stratum, Fields] = {}
    for delta in usable:
        stratum = (delta.node, delta.generation)
        if stratum in silent:
            continue
        if delta.arm == compared.canary and _share(routes[delta.generation], delta.arm) > 0:
            canary[stratum] = delta.fields
        elif delta.arm == compared.stable:
            stable[stratum] = delta.fields
    strata = sorted(canary.keys() | stable.keys())
    if not strata:
        return None
    on_canary = [canary.get(stratum, {}) for stratum in strata]
    on_stable = [stable.get(stratum, {}) for stratum in strata]
    return Batch(
        layout=layout(compared.edges, compared.baseline),
        seconds=max(delta.seconds for delta in usable),
        canary=_arm(on_canary, compared),
        stable=_arm(on_stable, compared),
        pairs=_pairs(on_canary, compared),
        split=_split(strata, on_canary, on_stable, routes, compared.canary),
    )


def of_stable(windows: Sequence[Fields], compared: Compared) -> list[Batch]:
    """Windows of the stable arm before a release: they teach its rates and its dispersion, nothing else."""
    names = layout(compared.edges, compared.baseline)
    return [stable_only(names, WINDOW_S, _arm([fields], compared)) for fields in windows]


def _counted_alike(route: Route | None, compared: Compared) -> bool:
    return route is not None and same_bins(route.edges, compared.edges)


def _share(route: Route, arm: ArmId) -> int:
    return next((each.share for each in route.arms if each.arm == arm), 0)


def _one(strata: Sequence[Fields], name: str) -> Floats:
    """(1, S) of a field with one cell."""
    return np.array([[float(fields[name][0]) if name in fields else 0.0 for fields in strata]])


def _cells(strata: Sequence[Fields], name: str, size: int) -> Floats:
    """(1, S, size) of a field."""
    zero = np.zeros(size)
    return np.array([[fields[name].astype(float) if name in fields else zero for fields in strata]])


def _stack(columns: Sequence[Floats], strata: int) -> Floats:
    """(1, S, len(columns)) of columns of (1, S) each."""
    return np.stack(columns, axis=-1) if columns else np.zeros((1, strata, 0))


def _arm(strata: Sequence[Fields], compared: Compared) -> ArmCounts:
    """n are the requests that ended: one that is still under way can't have failed yet.

    What was the caller's own fault, or given up by the caller, says nothing about the arm.
    """
    errors = _stack([_one(strata, f"outcome.{outcome}") for outcome in ERROR_OUTCOMES], len(strata))
    timed, slow = [], []
    for size, first in zip(BATCH_BUCKETS, compared.baseline.slow, strict=True):
        runs = _counted(strata, f"engine_us.{size}")
        known = first < LATENCY_BINS
        timed.append(np.array([[float(run.sum()) if known else 0.0 for run in runs]]))
        slow.append(np.array([[float(run[first:].sum()) if known else 0.0 for run in runs]]))
    observed, tails = [], []
    for tail in compared.baseline.tails:
        answers = _counted(strata, f"observable.{tail.observable}")
        observed.append(np.array([[float(each.sum()) for each in answers]]))
        tails.append(np.array([[float(_inside(each, tail)) for each in answers]]))
    return ArmCounts(
        n=_one(strata, f"outcome.{Outcome.OK}") + errors.sum(axis=-1),
        errors=errors,
        timed=_stack(timed, len(strata)),
        slow=_stack(slow, len(strata)),
        observed=_stack(observed, len(strata)),
        tails=_stack(tails, len(strata)),
        mixes=tuple(
            _cells(strata, f"observable.{each.name}", each.bins) for each in compared.edges.observables
        ),
    )


def _counted(strata: Sequence[Fields], name: str) -> list[Cells]:
    nothing = np.zeros(0, dtype=np.int64)
    return [fields.get(name, nothing) for fields in strata]


def _inside(cells: Cells, tail: Tail) -> int:
    return int(cells[: tail.at].sum() if tail.side is Side.BELOW else cells[tail.at :].sum())


def _pairs(strata: Sequence[Fields], compared: Compared) -> PairCounts:
    """Pairs are stored under the canary's key. A pair's parts are read one after the other, so that a part
    may be ahead of its whole by what came in between: the whole is then taken to be as large."""
    canary_failed, stable_failed = (_one(strata, f"pairs.{arm}_failed") for arm in ("canary", "stable"))
    both = _one(strata, "pairs.compared")
    lows = [tail for tail in compared.baseline.tails if tail.side is Side.BELOW]
    mixes = []
    for observable in compared.edges.observables:
        if observable.kind == "class":
            inflow, outflow = (
                _cells(strata, f"pairs.{observable.name}.{way}", observable.bins) for way in ("in", "out")
            )
            flips = np.maximum(inflow.sum(axis=-1), outflow.sum(axis=-1))
            mixes.append(MixPairs(np.maximum(both, flips), flips, inflow, outflow))
    of_canary, of_stable, seen = [], [], []
    nothing = np.zeros_like(both)
    for tail in compared.baseline.tails:
        paired = tail in lows
        mine = _one(strata, f"pairs.{tail.observable}.canary_low") if paired else nothing
        other = _one(strata, f"pairs.{tail.observable}.stable_low") if paired else nothing
        of_canary.append(mine)
        of_stable.append(other)
        seen.append(np.maximum(both, mine + other) if paired else nothing)
    return PairCounts(
        n=np.maximum(_one(strata, "pairs.n"), canary_failed + stable_failed),
        canary_failed=canary_failed,
        stable_failed=stable_failed,
        compared=_stack(seen, len(strata)),
        canary_tail=_stack(of_canary, len(strata)),
        stable_tail=_stack(of_stable, len(strata)),
        mixes=tuple(mixes),
    )


def _split(
    strata: Sequence[Stratum],
    on_canary: Sequence[Fields],
    on_stable: Sequence[Fields],
    routes: Mapping[int, Route],
    canary: ArmId,
) -> SplitCounts:
    """Requests as they were assigned. With sticky users requests are no measure of the split (a heavy user
    is no fault), so nothing is compared; nor where one arm has everything."""
    share = np.array([[_share(routes[generation], canary) / BASIS_POINTS for _, generation in strata]])
    by_request = np.array([[routes[generation].unit.kind == "request" for _, generation in strata]])
    checked = by_request & (share > 0.0) & (share < 1.0)
    mine = np.where(checked, _one(on_canary, "assigned"), 0.0)
    return SplitCounts(
        share=share, canary=mine, total=mine + np.where(checked, _one(on_stable, "assigned"), 0.0)
    )
