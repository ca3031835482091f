"""The lineage tree as people read it."""

from registry.contract.lineage import LineageEdge, LineageGraph, LineageNode, NodeKind, Relation
from slipway.cli.lineage import ref_of, tree


def _node(ref: str, depth: int, name: str = "", phase: str = "") -> LineageNode:
    kind, _, rest = ref.partition(":")
    return LineageNode(ref=ref, kind=NodeKind(kind), name=name or rest, phase=phase, depth=depth)


GRAPH = LineageGraph(
    root="version:ants@1",
    nodes=(
        _node("version:ants@1", 0, phase="ready"),
        _node("version:ants@2", 1, phase="archived"),
        _node("build:bld_1", 1, "of ants@1", "completed"),
        _node("build:bld_2", 2, "of ants@2", "completed"),
        _node("engine:eng_1", 2, "ants@1@fp32 for ort.cpu", "releasable"),
    ),
    edges=(
        LineageEdge(source="version:ants@1", target="version:ants@2", relation=Relation.PARENT),
        LineageEdge(source="version:ants@1", target="build:bld_1", relation=Relation.BUILT),
        LineageEdge(source="version:ants@2", target="build:bld_2", relation=Relation.BUILT),
        LineageEdge(source="version:ants@2", target="version:ants@1", relation=Relation.PARENT),
        LineageEdge(source="build:bld_1", target="engine:eng_1", relation=Relation.MADE),
    ),
    truncated=False,
)


def test_the_tree_opens_each_node_once() -> None:
    assert list(tree(GRAPH, forward=True)) == [
        "├─ parent: version ants@2 [archived]",
        "│  ├─ built: build of ants@2 (bld_2) [completed]",
        "│  └─ parent: version ants@1 [ready] (above)",
        "└─ built: build of ants@1 (bld_1) [completed]",
        "   └─ made: engine ants@1@fp32 for ort.cpu (eng_1) [releasable]",
    ]


def test_a_version_needs_no_kind_in_front() -> None:
    assert ref_of("ants@1") == "version:ants@1"
    assert ref_of("dataset:cal@2") == "dataset:cal@2"
    assert ref_of("commit:4f1e") == "commit:4f1e"
