"""slipway lineage: what came of what."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated

import typer

from registry.client import lineage
from registry.contract.lineage import Direction, LineageEdge, LineageGraph, LineageNode, NodeKind
from slipway.cli.output import Column, Form, Output, hint, rows
from slipway.cli.session import client

COLUMNS: list[Column[LineageNode]] = [
    ("NODE", lambda n: n.ref),
    ("NAME", lambda n: n.name),
    ("PHASE", lambda n: n.phase),
    ("CREATED", lambda n: f"{n.at:%Y-%m-%d %H:%M}Z" if n.at else None),
    ("DEPTH", lambda n: n.depth),
]


def ref_of(text: str) -> str:
    """`sentiment@7` is a version; everything else has its kind in front."""
    return f"{NodeKind.VERSION}:{text}" if "@" in text and ":" not in text else text


def tree(graph: LineageGraph, *, forward: bool) -> Iterator[str]:
    """The lines below the root. A node that several ways lead to is opened once and named again elsewhere."""
    nodes = {node.ref: node for node in graph.nodes}
    steps: dict[str, list[LineageEdge]] = defaultdict(list)
    for edge in graph.edges:
        steps[edge.source if forward else edge.target].append(edge)
    opened = {graph.root}

    def below(ref: str, indent: str) -> Iterator[str]:
        for at, edge in enumerate(steps[ref]):
            there = edge.target if forward else edge.source
            last = at == len(steps[ref]) - 1
            again = there in opened
            branch = "└─" if last else "├─"
            yield f"{indent}{branch} {edge.relation}: {_label(nodes[there])}{' (above)' if again else ''}"
            if not again:
                opened.add(there)
                yield from below(there, indent + ("   " if last else "│  "))

    yield from below(graph.root, "")


def _label(node: LineageNode) -> str:
    # Versions, data sets and releases are called by their refs; builds and engines have names beside theirs.
    kind, _, name = node.ref.partition(":")
    called = f"{kind} {name}" if name == node.name else f"{kind} {node.name} ({name})"
    return f"{called} [{node.phase}]" if node.phase else called


def _show(graph: LineageGraph, direction: Direction) -> None:
    root = graph.nodes[0]
    print(_label(root))
    for towards, title, forward in (
        (Direction.ANCESTORS, "came from", False),
        (Direction.DESCENDANTS, "led to", True),
    ):
        if direction not in (towards, Direction.BOTH):
            continue
        lines = list(tree(graph, forward=forward))
        print(f"{title}:" if lines else f"{title}: nothing")
        for line in lines:
            print(line)


def show(
    of: Annotated[
        str,
        typer.Argument(
            help="MODEL@NUMBER, dataset:NAME@VERSION, commit:HASH, run:ID, build:ID, engine:ID, "
            "release:ENV/NAME#NUMBER"
        ),
    ],
    ancestors: Annotated[bool, typer.Option("--ancestors", help="Only what it came from")] = False,
    descendants: Annotated[bool, typer.Option("--descendants", help="Only what it led to")] = False,
    kind: Annotated[list[NodeKind], typer.Option(help="List only nodes of this kind")] = [],  # noqa: B006
    depth: int = 20,
    limit: int = 1000,
    output: Output = Form.TABLE,
) -> None:
    """What a version, engine, release … came from, and what it led to. As a tree; with --kind as a list."""
    direction = Direction.BOTH
    if ancestors != descendants:
        direction = Direction.ANCESTORS if ancestors else Direction.DESCENDANTS
    graph = client().call(lineage.graph(ref_of(of), direction, kind, depth, limit))
    if output is Form.JSON:
        print(graph.model_dump_json())
    elif output is Form.JSONL or kind:
        rows(graph.nodes, COLUMNS, output)
    else:
        _show(graph, direction)
    if graph.truncated:
        hint(f"there is more than {depth} steps or {limit} nodes; raise --depth or --limit")
