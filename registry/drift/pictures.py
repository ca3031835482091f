"""An arm's counts, and a reference's, as people look at them, and how far apart they are. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from registry.contract.counters import (
    ERROR_OUTCOMES,
    CounterEdges,
    ObservableEdges,
    Outcome,
    latency_edge,
)
from registry.contract.engines import ScoreReference
from registry.contract.routes import ArmRole
from registry.contract.verdicts import ArmWindow, Distance, Distribution
from registry.drift.baseline import OTHER
from registry.drift.cells import Cells
from registry.statistics import drift

MS = 1000.0


def quantile_ms(cells: Cells | None, quantile: float) -> float | None:
    """Upper edge of the bin that holds the quantile of latencies; None: nothing was timed."""
    total = int(cells.sum()) if cells is not None else 0
    if cells is None or total == 0:
        return None
    at = int(np.searchsorted(np.cumsum(cells), quantile * total))
    return latency_edge(min(at, cells.size - 1)) / MS


def distribution(observable: ObservableEdges, cells: Cells) -> Distribution:
    """Counts on the route's bins; `labels` ends with the bin of all others."""
    return Distribution(
        observable=observable.name,
        kind=observable.kind,
        labels=(*observable.labels, OTHER) if observable.kind == "class" else (),
        edges=observable.edges,
        counts=tuple(cells.tolist()),
        n=int(cells.sum()),
        mean=_mean(observable, cells),
    )


def _mean(observable: ObservableEdges, cells: Cells) -> float | None:
    """From the middles of the bins; an open bin counts as its edge, a score's ends are 0 and 1."""
    if observable.kind == "class" or not observable.edges or not cells.any():
        return None
    first, last = (0.0, 1.0) if observable.kind == "score" else (observable.edges[0], observable.edges[-1])
    ends = np.array([first, *observable.edges, last])
    return float(((ends[:-1] + ends[1:]) / 2 * cells).sum() / cells.sum())


def arm_window(
    arm: str, version: str, role: ArmRole, fields: Mapping[str, Cells], edges: CounterEdges
) -> ArmWindow:
    """`fields` are the sums over the window. `role`: stable or canary."""

    def count(name: str) -> int:
        return int(fields[name][0]) if name in fields else 0

    outcomes = {str(outcome): count(f"outcome.{outcome}") for outcome in Outcome}
    return ArmWindow(
        arm=arm,
        version=version,
        role="canary" if role is ArmRole.CANARY else "stable",
        assigned=count("assigned"),
        errors=sum(outcomes[outcome] for outcome in ERROR_OUTCOMES),
        outcomes={outcome: n for outcome, n in outcomes.items() if n},
        p50_ms=quantile_ms(fields.get("total_us"), 0.50),
        p99_ms=quantile_ms(fields.get("total_us"), 0.99),
        distributions=tuple(
            distribution(each, fields.get(f"observable.{each.name}", np.zeros(each.bins, dtype=np.int64)))
            for each in edges.observables
        ),
    )


def reference_window(
    version: str, references: Sequence[ScoreReference], edges: CounterEdges
) -> ArmWindow | None:
    """Validation's distribution on the route's bins; None where it has none on these."""
    found = [
        distribution(observable, cells)
        for observable in edges.observables
        for reference in references
        if reference.observable == observable.name and (cells := _on_bins(reference, observable)) is not None
    ]
    if not found:
        return None
    return ArmWindow(
        arm=None,
        version=version,
        role="reference",
        assigned=max(each.n for each in found),
        errors=0,
        outcomes={},
        p50_ms=None,
        p99_ms=None,
        distributions=tuple(found),
    )


def _on_bins(reference: ScoreReference, observable: ObservableEdges) -> Cells | None:
    """Classes are matched by label, what the route does not name is "other"; numbers need equal edges."""
    if observable.kind != "class":
        if reference.edges != observable.edges or len(reference.counts) != observable.bins:
            return None
        return np.array(reference.counts, dtype=np.int64)
    cells = np.zeros(observable.bins, dtype=np.int64)
    places = {label: place for place, label in enumerate(observable.labels)}
    for place, count in enumerate(reference.counts):
        label = reference.labels[place] if place < len(reference.labels) else OTHER
        cells[places.get(label, observable.bins - 1)] += count
    return cells


def distances(windows: Sequence[ArmWindow]) -> tuple[Distance, ...]:
    """Of every observable between each two of the windows in which it was counted at all."""
    found = []
    for one, other in combinations(windows, 2):
        others = {each.observable: each for each in other.distributions}
        for mine in one.distributions:
            theirs = others.get(mine.observable)
            if theirs is None or not mine.n or not theirs.n or len(mine.counts) < 2:
                continue
            far = drift.compare(np.array(mine.counts, float), np.array(theirs.counts, float))
            found.append(
                Distance(
                    observable=mine.observable,
                    between=(one.role, other.role),
                    psi=far.psi,
                    js=far.js,
                    n=min(far.n, far.m),
                    alert=far.alert,
                )
            )
    return tuple(found)
