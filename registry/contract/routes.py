"""Routes and fences: a deployment's share table, and the number that orders its changes."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from registry.contract.counters import CounterEdges
from registry.contract.identity import ArmId
from registry.contract.wire import LARGEST, Wire

BASIS_POINTS = 10_000
Share = Annotated[int, Field(ge=0, le=BASIS_POINTS)]


class Fence(Wire):
    """Compared in order timeline, generation; another registry id is never comparable."""

    registry_id: str
    timeline: int = Field(ge=1, le=LARGEST)
    generation: int = Field(ge=0, le=LARGEST)

    def supersedes(self, other: "Fence | None") -> bool:
        """True when a holder of `other` must take this one. Another registry's fence never supersedes."""
        if other is None:
            return True
        if self.registry_id != other.registry_id:
            return False
        return (self.timeline, self.generation) > (other.timeline, other.generation)


class ArmRole(StrEnum):
    STABLE = "stable"
    CANARY = "canary"
    SHADOW = "shadow"
    STANDBY = "standby"


class RoutingUnit(Wire):
    """Whose buckets are split: every request by its id, or a caller's key taken from a header."""

    kind: Literal["request", "key"] = "request"
    header: str | None = None


class RouteArm(Wire):
    arm: ArmId
    version: str = Field(description="MODEL@NUMBER@PRECISION")
    role: ArmRole
    share: Share


class RouteCause(StrEnum):
    FIRST = "first"
    PREPARE = "prepare"
    STEP = "step"
    PAUSE = "pause"
    COMPLETE = "complete"
    ROLL_BACK = "roll_back"
    ABORT = "abort"
    SUPERSEDE = "supersede"
    TIMELINE = "timeline"


class Route(Wire):
    """Append-only. Shares sum to 10 000, or to 0 for an empty route (503 + Retry-After).

    `keep`: arms that stay loaded; `mirror`: part of the canary's requests that stable answers as well,
    off the request path, in basis points. `resolves`: ids of the break-glass overrides that this generation
    settles; a node under one of them ignores every generation that does not name it.
    """

    deployment: str
    fence: Fence
    cause: RouteCause
    actor: str
    reason: str
    arms: tuple[RouteArm, ...]
    keep: tuple[ArmId, ...]
    unit: RoutingUnit
    salt: str
    edges: CounterEdges
    mirror: Share = 0
    release: int | None = None
    resolves: tuple[str, ...] = ()
    created_at: datetime
