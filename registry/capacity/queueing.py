"""How long requests take on one node at a rate: a simulation of the node's own dispatch rule. Pure.

Requests come at random (Poisson) and pass two servers: the gateway, one after the other, each for its own
time; then the engine, which takes all that waits, up to its limit, as soon as it is free. The second is the
bulk queue M/G^(1,B)/1 of M. Neuts, A general class of bulk queues with Poisson input (1967); its P99 has no
closed form, so it is simulated, with the same random numbers at every rate. A run of b rows takes a lognormal
time with the measured median and P99 at b, interpolated between the measured sizes.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

REQUESTS = 30_000
# The first requests find an empty node: they tell nothing of a node at work.
WARM_UP = 2_000
_Z99 = 2.3263478740408408
_STEPS = 10


@dataclass(frozen=True)
class Point:
    """Seconds of a run of `rows` rows."""

    rows: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True)
class NodeModel:
    """`points` ascend in rows; the last one is the most that share a run. `gateway_s`: of one request."""

    points: tuple[Point, ...]
    gateway_s: float

    def __post_init__(self) -> None:
        rows = [point.rows for point in self.points]
        if not rows or rows != sorted(set(rows)) or rows[0] < 1:
            raise ValueError(f"points must ascend in rows, and these are of {rows}")

    @property
    def most_rows(self) -> int:
        return self.points[-1].rows

    @property
    def ceiling(self) -> float:
        """Requests a second that no node of this kind can exceed."""
        medians, spreads = self.curve()
        means = medians * np.exp(spreads**2 / 2)
        engine = float((np.arange(1, self.most_rows + 1) / means).max())
        return min(engine, 1 / self.gateway_s) if self.gateway_s > 0 else engine

    def curve(self) -> tuple[Array, Array]:
        """Median seconds and lognormal sigma of runs of 1, 2, … rows."""
        rows = [point.rows for point in self.points]
        sizes = np.arange(1, self.most_rows + 1)
        sigmas = [max(0.0, math.log(point.p99_s / point.p50_s) / _Z99) for point in self.points]
        medians = np.interp(sizes, rows, [point.p50_s for point in self.points])
        return medians, np.interp(sizes, rows, sigmas)


@dataclass(frozen=True)
class Load:
    """At one rate: P99 of a request's whole time, the mean size of runs, engine seconds per request."""

    rate: float
    p99_s: float
    batch_rows: float
    engine_s: float


def at_rate(node: NodeModel, rate: float) -> Load:
    """Raises ValueError unless the rate is positive."""
    if rate <= 0:
        raise ValueError(f"a rate is positive, not {rate:g}")
    generator = np.random.default_rng(0)
    came = np.cumsum(generator.exponential(1.0, REQUESTS)) / rate
    noise = generator.standard_normal(REQUESTS)
    turns = np.arange(REQUESTS) * node.gateway_s
    ready = np.maximum.accumulate(came - turns) + turns + node.gateway_s
    done, runs, busy = _engine(node, ready.tolist(), noise.tolist())
    took = (done - came)[WARM_UP:]
    return Load(rate, float(np.quantile(took, 0.99)), REQUESTS / runs, busy / REQUESTS)


def _engine(node: NodeModel, ready: Sequence[float], noise: Sequence[float]) -> tuple[Array, int, float]:
    """When each request is answered, how many runs that took, and for how many seconds they ran."""
    medians, spreads = (part.tolist() for part in node.curve())
    done: list[float] = []
    at = runs = 0
    free = busy = 0.0
    while at < len(ready):
        start = max(free, ready[at])
        end = bisect_right(ready, start, at, min(at + node.most_rows, len(ready)))
        rows = end - at
        took = medians[rows - 1] * math.exp(spreads[rows - 1] * noise[runs])
        free = start + took
        done.extend([free] * rows)
        busy += took
        runs += 1
        at = end
    return np.array(done), runs, busy


def most_within(node: NodeModel, p99_s: float) -> Load | None:
    """The highest rate at which P99 stays within the limit; None: not even a lone request does."""
    ceiling = node.ceiling
    low = ceiling / 1000
    found = at_rate(node, low)
    if found.p99_s > p99_s:
        return None
    high = ceiling
    for _ in range(_STEPS):
        middle = (low + high) / 2
        load = at_rate(node, middle)
        if load.p99_s <= p99_s:
            low, found = middle, load
        else:
            high = middle
    return found
