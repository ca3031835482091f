"""From benches and a peak to nodes, headroom and cost. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.capacity import queueing
from registry.capacity.queueing import Load, NodeModel, Point
from registry.contract.capacity import RequestParts, TargetCapacity
from registry.contract.engines import BenchReport, EngineReport

# Reading a request and writing its answer, on the gateway's loop: `./run bench serving` tells it of a machine
# (gateway_cpu_us_per_request).
ACCESS_MS = 0.15


@dataclass(frozen=True)
class Need:
    """`price_per_hour` of a node, in any currency."""

    peak_rps: float
    p99_ms: float
    price_per_hour: float | None = None


def node_model(bench: BenchReport, batchable: bool) -> NodeModel:
    """Engines that are never batched run one row at a time."""
    points = sorted(bench.points, key=lambda point: point.rows)
    used = points if batchable else points[:1]
    return NodeModel(
        points=tuple(Point(one.rows, one.p50_ms / 1e3, one.p99_ms / 1e3) for one in used),
        gateway_s=(ACCESS_MS + (bench.pre_ms or 0) + (bench.post_ms or 0)) / 1e3,
    )


def of_engine(engine: EngineReport, need: Need, nodes: int) -> TargetCapacity:
    """What one node of the engine's target carries, and what the whole peak needs of such nodes. Raises
    ValueError for an engine that was never benched."""
    bench = engine.bench
    if bench is None:
        raise ValueError(f"the engine {engine.digest} was never benched")
    node = node_model(bench, engine.batchable)
    unloaded = queueing.at_rate(node, node.ceiling / 1000)
    most = queueing.most_within(node, need.p99_ms / 1e3)
    per_node = most.rate if most else 0.0
    needed = math.ceil(need.peak_rps / per_node - 1e-9) if per_node else None
    load = most or unloaded
    if needed is not None:
        # At the peak the nodes share it evenly: smaller runs than at the limit.
        load = queueing.at_rate(node, need.peak_rps / needed)
    parts = _parts(bench, load)
    cost = None
    if needed is not None and need.price_per_hour is not None:
        cost = need.price_per_hour * needed / (need.peak_rps * 3600) * 1e6
    return TargetCapacity(
        target=engine.target,
        engine=engine.digest,
        nodes=nodes,
        rps_per_node=per_node,
        batch_rows=load.batch_rows,
        p99_ms=load.p99_s * 1e3,
        unloaded_p99_ms=unloaded.p99_s * 1e3,
        parts=parts,
        nodes_needed=needed,
        cost_per_million=cost,
        cost_parts=None if cost is None else _shared(cost, parts),
    )


def _parts(bench: BenchReport, load: Load) -> RequestParts:
    return RequestParts(
        access=ACCESS_MS, pre=bench.pre_ms or 0, engine=load.engine_s * 1e3, post=bench.post_ms or 0
    )


def _shared(cost: float, parts: RequestParts) -> RequestParts:
    each = cost / parts.total
    return RequestParts(
        access=parts.access * each, pre=parts.pre * each, engine=parts.engine * each, post=parts.post * each
    )


def targets_of_nodes(nodes: Sequence[tuple[str, ...]], engines: Sequence[EngineReport]) -> Mapping[str, int]:
    """Engine target → nodes that would load that one: the first of their list that has an engine."""
    ours = {engine.target for engine in engines}
    chosen = [next((target for target in listed if target in ours), None) for listed in nodes]
    return {target: chosen.count(target) for target in ours}


def sentence(found: Sequence[TargetCapacity], need: Need, pool_rps: float) -> str:
    """What a person wants to know first."""
    peak = f"{need.peak_rps:g} requests a second within {need.p99_ms:g} ms"
    if not found:
        return f"no engine was benched, so nothing tells what {peak} needs; build the version again"
    if all(one.nodes_needed is None for one in found):
        best = min(one.unloaded_p99_ms for one in found)
        return f"no number of nodes gives {peak}: a lone request takes {best:.2f} ms already (P99)"
    able = [one for one in found if one.nodes_needed is not None]
    served = [one for one in able if one.nodes] or able
    wanted = min(served, key=lambda one: one.nodes_needed or 0)
    head = f"{peak} needs {wanted.nodes_needed} nodes of {wanted.target} ({wanted.rps_per_node:.0f} each)"
    there = sum(one.nodes for one in found)
    if not there:
        return f"{head}; no node of the pool is fresh"
    left = pool_rps / need.peak_rps - 1
    told = f"{left:.0%} more than that" if left >= 0 else f"only {pool_rps / need.peak_rps:.0%} of that"
    return f"{head}; the pool's {there} carry {pool_rps:.0f} a second, {told}"
