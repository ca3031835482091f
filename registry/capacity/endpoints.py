"""Capacity over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from registry.capacity import service
from registry.capacity.planning import Need
from registry.contract.capacity import Capacity
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1/capacity", tags=["capacity"], route_class=EdgeRoute)


@router.get("", dependencies=[requires(*READERS)])
async def capacity(
    unit: UnitOfWork,
    deployment: Annotated[str, Query(description="ENVIRONMENT/NAME", max_length=256)],
    peak_rps: Annotated[float, Query(gt=0, le=1e9, description="Requests a second")],
    p99: Annotated[float, Query(gt=0, le=3.6e6, description="Milliseconds that P99 may take")],
    version: Annotated[
        str | None, Query(max_length=256, description="MODEL@NUMBER[@PRECISION]; left out: what serves")
    ] = None,
    price_per_hour: Annotated[float | None, Query(ge=0, le=1e9, description="Of one node")] = None,
) -> Capacity:
    """Nodes for a peak at a P99, headroom of the pool, cost per million requests: from measured benches."""
    return await service.capacity(unit, deployment, version, Need(peak_rps, p99, price_per_hour))
