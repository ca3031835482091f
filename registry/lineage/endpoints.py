"""The lineage graph over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from registry.contract.lineage import Direction, LineageGraph, NodeKind
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires
from registry.lineage import service

router = APIRouter(prefix="/v1/lineage", tags=["lineage"], route_class=EdgeRoute)


@router.get("", dependencies=[requires(*READERS)])
async def graph(
    unit: UnitOfWork,
    of: Annotated[
        str,
        Query(
            max_length=512,
            description="version:MODEL@NUMBER, dataset:NAME@VERSION, commit:HASH, run:ID, build:ID, "
            "engine:ID, release:ENVIRONMENT/NAME#NUMBER",
        ),
    ],
    direction: Direction = Direction.BOTH,
    kind: Annotated[
        list[NodeKind] | None, Query(max_length=len(NodeKind), description="Show only these; default all")
    ] = None,
    depth: Annotated[int, Query(ge=1, le=100, description="Edges from the root")] = 20,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Nodes in one direction")] = 1000,
) -> LineageGraph:
    """What came of what. Which releases used a calibration set: of=dataset:calset@2, direction=descendants,
    kind=release. What was built from a commit: of=commit:4f1e2d, direction=descendants."""
    return await service.graph(unit, of, direction, kind or (), depth, limit)
