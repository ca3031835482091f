"""Calls on the lineage graph."""

from collections.abc import Sequence

from registry.client.call import Call, path, query
from registry.contract.lineage import Direction, LineageGraph, NodeKind


def graph(
    of: str,
    direction: Direction = Direction.BOTH,
    kinds: Sequence[NodeKind] = (),
    depth: int = 20,
    limit: int = 1000,
) -> Call[LineageGraph]:
    """`of`: `version:sentiment@7`, `dataset:calset@2`, `commit:4f1e2d`, `release:prod/sentiment#3`, …"""
    return Call(
        "GET",
        path("lineage"),
        LineageGraph,
        query=query(of=of, direction=direction, kind=[*kinds], depth=depth, limit=limit),
    )
