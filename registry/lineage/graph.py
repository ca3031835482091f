"""Walking the lineage graph, one step at a time for all of its frontier."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from registry.contract.lineage import NodeKind, Relation


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identity of a node: kind and the identity within its kind, as the database knows it."""

    kind: NodeKind
    id: str


@dataclass(frozen=True, slots=True)
class Edge:
    """From the earlier to the later one."""

    source: Key
    target: Key
    relation: Relation


Step = Callable[[Collection[Key]], Awaitable[Sequence[Edge]]]


@dataclass
class Walk:
    """What was reached, in the order in which it was; `depth` is the distance from the root."""

    depth: dict[Key, int]
    edges: dict[Edge, None] = field(default_factory=dict)
    truncated: bool = False


async def walk(root: Key, step: Step, *, forward: bool, depth: int, limit: int) -> Walk:
    """Breadth first, `depth` edges far, `limit` nodes at most. Each node is visited once, so a cycle ends.

    `step` gives all edges that leave the frontier, towards descendants (`forward`) or ancestors.
    """
    found = Walk({root: 0})
    frontier = [root]
    for distance in range(1, depth + 2):
        if not frontier:
            return found
        reached: list[Key] = []
        for edge in await step(frontier):
            there = edge.target if forward else edge.source
            if there not in found.depth:
                if distance > depth or len(found.depth) >= limit:
                    found.truncated = True
                    continue
                found.depth[there] = distance
                reached.append(there)
            found.edges[edge] = None
        frontier = reached
    return found
