"""Drift over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from registry.contract.identity import Environment, Name
from registry.contract.verdicts import DriftWindow
from registry.drift import service
from registry.edge.roles import READERS
from registry.edge.route import EdgeRoute
from registry.edge.unit import UnitOfWork, requires

router = APIRouter(prefix="/v1/deployments", tags=["drift"], route_class=EdgeRoute)

LONGEST_S = 3600


@router.get("/{environment}/{name}/drift", dependencies=[requires(*READERS)])
async def drift(
    environment: Environment,
    name: Name,
    unit: UnitOfWork,
    since_s: Annotated[
        float, Query(ge=10, le=LONGEST_S, description="Length of the window, in seconds")
    ] = 600,
) -> DriftWindow:
    """Canary, stable and the validation reference side by side: class mix, scores, latency, errors."""
    return await service.drift(unit, environment, name, since_s)
