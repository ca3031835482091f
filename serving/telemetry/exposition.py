"""Prometheus text over all workers of a node, from their counter files: never one worker's view."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from registry.contract.counters import BATCH_BUCKETS, LATENCY_BINS, CounterEdges, Outcome, latency_edge
from serving.telemetry.counterfile import CounterSnapshot, find, read

_STEP = 36
"""Latency bins per Prometheus bucket: 36 steps of 2 % double the time."""


@dataclass(slots=True)
class _Series:
    """One arm of one deployment, summed over workers and generations."""

    deployment: str
    arm: str
    version: str
    edges: CounterEdges
    fields: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    inflight: int = 0
    explicit: int = 0

    @property
    def labels(self) -> str:
        return f'deployment="{self.deployment}",arm="{self.arm}",version="{self.version}"'

    def add(self, snapshot: CounterSnapshot) -> None:
        for name, cells in snapshot.fields.items():
            known = self.fields.get(name)
            self.fields[name] = cells if known is None or known.shape != cells.shape else known + cells
        self.inflight += snapshot.inflight
        self.explicit += snapshot.explicit


def node_metrics(state: Path, incarnation: str) -> bytes:
    """All counters of this incarnation, in the text format 0.0.4."""
    found: dict[tuple[str, str], _Series] = {}
    for path in find(state, incarnation):
        snapshot = read(path)
        if snapshot is None:
            continue
        key = (snapshot.key.deployment, snapshot.key.arm)
        series = found.get(key)
        if series is None:
            series = found[key] = _Series(*key, snapshot.key.version, snapshot.edges)
        series.add(snapshot)
    lines: dict[str, list[str]] = defaultdict(list)
    for series in found.values():
        for family, line in _lines(series):
            lines[family].append(line)
    return "".join(
        f"# HELP {family} {text}\n# TYPE {family} {kind}\n" + "".join(lines[family])
        for family, (kind, text) in _FAMILIES.items()
        if lines[family]
    ).encode()


_FAMILIES = {
    "slipway_requests_total": ("counter", "Requests by the arm that was assigned and their outcome."),
    "slipway_explicit_requests_total": ("counter", "Requests that named this version themselves."),
    "slipway_requests_inflight": ("gauge", "Requests inside."),
    "slipway_request_seconds": ("histogram", "Time from the head's end to the answer."),
    "slipway_engine_run_seconds": ("histogram", "Time of one engine run, by its batch size."),
    "slipway_pairs_total": ("counter", "Rows answered by canary and stable, and how they differed."),
}


def _lines(series: _Series) -> Iterator[tuple[str, str]]:
    labels = series.labels
    for outcome in Outcome:
        n = int(series.fields[f"outcome.{outcome.value}"][0])
        family = "slipway_requests_total"
        yield family, f'{family}{{{labels},outcome="{outcome.value}"}} {n}\n'
    yield (
        "slipway_explicit_requests_total",
        (f"slipway_explicit_requests_total{{{labels}}} {series.explicit}\n"),
    )
    yield "slipway_requests_inflight", f"slipway_requests_inflight{{{labels}}} {series.inflight}\n"
    yield from _histogram("slipway_request_seconds", labels, series.fields["total_us"])
    for size in BATCH_BUCKETS:
        cells = series.fields[f"engine_us.{size}"]
        if cells.any():
            yield from _histogram("slipway_engine_run_seconds", f'{labels},batch="{size}"', cells)
    for kind in ("n", "flips", "canary_failed", "stable_failed"):
        n = int(series.fields[f"pairs.{kind}"][0])
        yield "slipway_pairs_total", f'slipway_pairs_total{{{labels},kind="{kind}"}} {n}\n'


def _histogram(family: str, labels: str, cells: npt.NDArray[np.int64]) -> Iterator[tuple[str, str]]:
    """The sum is that of the bins' upper edges: at most 2 % too much."""
    sums = np.cumsum(cells)
    for at in range(_STEP - 1, LATENCY_BINS - 1, _STEP):
        yield family, f'{family}_bucket{{{labels},le="{latency_edge(at) / 1e6:.6g}"}} {sums[at]}\n'
    yield family, f'{family}_bucket{{{labels},le="+Inf"}} {sums[-1]}\n'
    used = np.flatnonzero(cells)
    total = sum(int(cells[at]) * latency_edge(int(at)) / 1e6 for at in used)
    yield family, f"{family}_sum{{{labels}}} {total:.6f}\n"
    yield family, f"{family}_count{{{labels}}} {sums[-1]}\n"
