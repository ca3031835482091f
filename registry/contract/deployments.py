"""Deployments: a model served under a name in an environment."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from registry.contract.identity import ArmId, Environment, Name
from registry.contract.routes import BASIS_POINTS, ArmRole, Fence, Route, RoutingUnit, Share
from registry.contract.tokens import Role
from registry.contract.versions import DatasetRef
from registry.contract.wire import Command, Wire, added


class Arm(Wire):
    """What a release moves traffic to. `id` is the digest of version, precision, engines and pipeline."""

    id: ArmId
    version: str
    precision: str
    engines: dict[str, str]
    pipeline: str
    proven: bool


class PlanStep(Wire):
    """`dwell_s`: the shortest stay; `hold_s`: the longest one, then the release pauses and asks."""

    share: int = Field(gt=0, le=BASIS_POINTS)
    dwell_s: float = Field(default=60, ge=0)
    hold_s: float = Field(default=86_400, gt=0)


def _climbs(steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    shares = [step.share for step in steps]
    if shares != sorted(set(shares)) or shares[-1] != BASIS_POINTS:
        raise ValueError("a plan's shares must grow from step to step and end at 10000 (all traffic)")
    return steps


Plan = Annotated[tuple[PlanStep, ...], Field(min_length=1, max_length=50), AfterValidator(_climbs)]
"""How a release widens: a policy's, and a promote's own."""

DEFAULT_PLAN: Plan = (
    PlanStep(share=500),
    PlanStep(share=2_500),
    PlanStep(share=5_000),
    PlanStep(share=9_500),
    PlanStep(share=10_000, dwell_s=0),
)


class ReleaseTolerances(Wire):
    """What a candidate may be worse by, before the traffic goes back. Rates as fractions.

    A step advances when errors and slow answers are proven below `prove_ratio` × stable's, or stable's
    plus `prove_add`, whichever is more.
    """

    errors_ratio: float = Field(default=1.25, ge=1)
    errors_add: float = Field(default=0.001, ge=0)
    slow_ratio: float = Field(default=1.25, ge=1)
    slow_add: float = Field(default=0.0025, ge=0)
    class_add: float = Field(default=0.02, ge=0)
    low_score_ratio: float = Field(default=1.25, ge=1)
    low_score_add: float = Field(default=0.05, ge=0)
    flips_add: float = Field(default=0.02, ge=0)
    prove_ratio: float = Field(default=2.0, ge=1)
    prove_add: float = Field(default=0.005, ge=0)


class MetricsGate(Wire):
    """The candidate's metric may be worse than stable's by at most `max_loss` (absolute)."""

    dataset: DatasetRef
    metric: str
    max_loss: float = Field(default=0.01, ge=0)


class CapacityNeed(Wire):
    """What the deployment must carry at its peak. `price_per_hour` of one node, in any currency."""

    peak_rps: float = Field(gt=0, le=1e9)
    p99_ms: float = Field(gt=0, le=3.6e6)
    price_per_hour: float | None = Field(default=None, ge=0, le=1e9)


class Policy(Wire):
    """`auto_advance` False: steps are advanced by command; freeze and roll back stay automatic.

    `approvals` people of the role `approver_role`, none of them its author, must approve a release before it
    starts. Rolling back and aborting need no approval. `capacity`: a candidate that needs more nodes than the
    pool has is warned of when it starts.
    """

    plan: Plan = DEFAULT_PLAN
    auto_advance: bool = True
    auto_roll_back: bool = True
    allow_unproven: bool = False
    approvals: int = Field(default=0, ge=0, le=10)
    approver_role: Literal[Role.APPROVER, Role.RELEASER, Role.ADMIN] = Role.APPROVER
    min_ready: int = Field(default=1, ge=1, le=100_000)
    standby_s: float = Field(default=86_400, ge=0)
    node_timeout_s: float = Field(default=60, gt=0)
    drain_limit_s: float = Field(default=10, gt=0, le=600)
    mirror: Share = 10_000
    tolerances: ReleaseTolerances = ReleaseTolerances()
    metrics_gate: MetricsGate | None = None
    capacity: CapacityNeed | None = added(None)


class DeploymentCreate(Command):
    """A node serves the deployment when it is of the environment and has every label of `selector`."""

    environment: Environment
    name: Name
    model: Name
    selector: dict[str, str] = {}
    unit: RoutingUnit = RoutingUnit()
    policy: Policy = Policy()


class DeploymentPatch(Command):
    selector: dict[str, str] | None = None
    unit: RoutingUnit | None = None
    policy: Policy | None = None


class Pin(Command):
    """Automation off: nothing is released until the pin is lifted."""

    reason: str = Field(min_length=1, max_length=1024)


class Deployment(Wire):
    """`requested` is the registry's route; what nodes observed is its own resource, `…/status`.

    `rollback_to`: where a rollback that names nothing goes when no release is under way. It is the last good
    arm, or what served before it where that one was quarantined or archived since; None: nothing is known to
    be good before stable, so a rollback has to name where to.
    """

    environment: Environment
    name: Name
    model: Name
    selector: dict[str, str]
    unit: RoutingUnit
    policy: Policy
    requested: Route | None
    stable: Arm | None
    last_good: Arm | None
    rollback_to: Arm | None = added(None)
    active_release: int | None
    pinned: bool
    pin_reason: str
    pinned_by: str | None
    revision: int
    created_at: datetime
    created_by: str

    @property
    def ref(self) -> str:
        return f"{self.environment}/{self.name}"


class ObservedArm(Wire):
    """Of one arm on one node. `phase` is a slot phase, `share` what the node really gives it."""

    arm: ArmId
    version: str
    role: ArmRole | None
    share: Share
    phase: str
    reason: str
    standby: str | None = None


class ObservedNode(Wire):
    """`fresh` False: the last report is old; the node's state is unknown, never green."""

    node: str
    name: str
    fresh: bool
    last_seen_at: datetime | None
    published: bool
    applied: Fence | None
    switched_at: datetime | None
    drained_at: datetime | None
    arms: tuple[ObservedArm, ...]
    says: str
    address: str | None


class DeploymentStatus(Wire):
    """`requested`/`observed` share per arm; observed is weighted by nothing: the mean over fresh nodes."""

    deployment: str
    generation: int
    nodes: tuple[ObservedNode, ...]
    converged: bool
    observed: dict[str, Share]
    as_of: datetime


class PublishedNode(Wire):
    """Form of a Prometheus http_sd entry."""

    targets: tuple[str, ...]
    labels: dict[str, str]
