"""Use case of the lineage graph: from one node towards its ancestors, its descendants, or both."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from registry.contract.lineage import Direction, LineageEdge, LineageGraph, LineageNode, NodeKind
from registry.edge.unit import Unit
from registry.lineage import repository, roots
from registry.lineage.graph import Edge, Key, Walk, walk
from registry.lineage.repository import Facts

# Kinds that people know by another name than the database does.
NAMED = (NodeKind.VERSION, NodeKind.RELEASE)
# Kinds that are a text which versions name, and no row of their own.
TEXTS = (NodeKind.COMMIT, NodeKind.RUN)


async def graph(
    unit: Unit, ref: str, direction: Direction, kinds: Collection[NodeKind], depth: int, limit: int
) -> LineageGraph:
    """Raises Invalid, and NotFound, also for a root outside the token's scope.

    What lies outside the scope further on is left out, and so is what is behind it.
    """
    root = await roots.resolve(unit.session, ref)
    facts: dict[Key, Facts] = {}
    await _learn(unit, facts, [root])
    if not _visible(unit, root, facts.get(root)):
        raise roots.missing(ref, f"; {unit.principal.limits}")
    ways = {Direction.ANCESTORS: (False,), Direction.DESCENDANTS: (True,), Direction.BOTH: (False, True)}
    walks = [
        (forward, await _walked(unit, facts, root, forward, depth, limit)) for forward in ways[direction]
    ]
    return _represent(root, facts, walks, kinds)


async def _walked(
    unit: Unit, facts: dict[Key, Facts], root: Key, forward: bool, depth: int, limit: int
) -> Walk:
    async def step(frontier: Collection[Key]) -> Sequence[Edge]:
        found = await repository.edges(unit.session, frontier, forward=forward)
        there = {edge.target if forward else edge.source for edge in found}
        await _learn(unit, facts, there)
        visible = {key for key in there if _visible(unit, key, facts.get(key))}
        return [edge for edge in found if (edge.target if forward else edge.source) in visible]

    return await walk(root, step, forward=forward, depth=depth, limit=limit)


def _visible(unit: Unit, key: Key, known: Facts | None) -> bool:
    if known is None:
        return key.kind in TEXTS
    return unit.principal.sees(known.model, known.environment)


async def _learn(unit: Unit, facts: dict[Key, Facts], keys: Collection[Key]) -> None:
    """Reads what is not known yet, one query for each kind."""
    wanted: dict[NodeKind, set[str]] = defaultdict(set)
    for key in keys:
        if key not in facts:
            wanted[key.kind].add(key.id)
    for kind, ids in wanted.items():
        for found, row in (await repository.facts(unit.session, kind, ids)).items():
            facts[Key(kind, found)] = row


def _represent(
    root: Key, facts: dict[Key, Facts], walks: Sequence[tuple[bool, Walk]], kinds: Collection[NodeKind]
) -> LineageGraph:
    depths: dict[Key, int] = {}
    edges: dict[Edge, None] = {}
    for forward, found in walks:
        for key, depth in found.depth.items():
            depths.setdefault(key, depth if forward else -depth)
        edges.update(found.edges)
    shown = {key: depth for key, depth in depths.items() if not kinds or key.kind in kinds}
    # The root is first, then by distance; what is equally far by kind and age, as ids grow with time.
    order = sorted(shown, key=lambda key: (abs(shown[key]), list(NodeKind).index(key.kind), key.id))
    return LineageGraph(
        root=_ref(root, facts),
        nodes=tuple(_node(key, facts, shown[key]) for key in order),
        edges=tuple(
            LineageEdge(
                source=_ref(edge.source, facts), target=_ref(edge.target, facts), relation=edge.relation
            )
            for edge in edges
            if edge.source in shown and edge.target in shown
        ),
        truncated=any(found.truncated for _, found in walks),
    )


def _ref(key: Key, facts: dict[Key, Facts]) -> str:
    return f"{key.kind}:{facts[key].name if key.kind in NAMED else key.id}"


def _node(key: Key, facts: dict[Key, Facts], depth: int) -> LineageNode:
    known = facts.get(key)
    if known is None:
        return LineageNode(ref=_ref(key, facts), kind=key.kind, name=key.id, depth=depth)
    return LineageNode(
        ref=_ref(key, facts), kind=key.kind, name=known.name, phase=known.phase, at=known.at, depth=depth
    )
