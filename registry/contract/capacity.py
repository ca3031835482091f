"""Capacity: what a deployment's engines can carry, by their measured benches."""

from registry.contract.identity import Digest, TargetName
from registry.contract.wire import Wire


class RequestParts(Wire):
    """Milliseconds of work per request. `engine` at the batch size that the load leads to; `access`: reading
    the request and writing the answer."""

    access: float
    pre: float
    engine: float
    post: float

    @property
    def total(self) -> float:
        return self.access + self.pre + self.engine + self.post


class TargetCapacity(Wire):
    """Of one engine. `rps_per_node`: the highest rate at which P99 stays within the limit; there runs hold
    `batch_rows` rows on average. `nodes_needed`: if all nodes were of this target; None: no number would do.
    `cost_per_million` requests at the peak, and its parts by their share of the work."""

    target: TargetName
    engine: Digest
    nodes: int
    rps_per_node: float
    batch_rows: float
    p99_ms: float
    unloaded_p99_ms: float
    parts: RequestParts
    nodes_needed: int | None
    cost_per_million: float | None = None
    cost_parts: RequestParts | None = None


class Capacity(Wire):
    """`pool_rps`: what the fresh nodes carry together. `headroom`: the part of the peak that is left beyond
    it; below 0 the pool is too small."""

    deployment: str
    version: str
    precision: str
    peak_rps: float
    p99_ms: float
    price_per_hour: float | None
    targets: tuple[TargetCapacity, ...]
    nodes: int
    pool_rps: float
    headroom: float
    enough: bool
    says: str
