"""The node protocol: enrolment, assignment, reports, and the two confirmed moments."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from registry.contract.counters import CounterEdges, CounterReport
from registry.contract.identity import ArmId, Digest, Environment, Name, TargetName
from registry.contract.routes import ArmRole, Fence, RoutingUnit, Share
from registry.contract.versions import FileEntry, VersionContract
from registry.contract.wire import LARGEST, Command, Whole, Wire, added


class EnrolmentCreate(Command):
    environment: Environment
    expires_in_s: int = Field(default=3600, ge=60, le=604_800)


class Enrolment(Wire):
    """`secret` is the one-time token, shown once; `id` names it where it is listed and revoked."""

    environment: Environment
    secret: str
    expires_at: datetime
    id: str = added("")


class Invitation(Wire):
    """A one-time token with which no node has enrolled yet, without the token."""

    id: str
    environment: Environment
    expires_at: datetime
    created_at: datetime
    created_by: str


class Hardware(Wire):
    cores: Whole
    memory_bytes: Whole
    cpu_features: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


class Enrol(Wire):
    """`targets`: what the node can load, best first. `address`: host:port of its gateway. `environment`:
    where the node means to be, so that a one-time token of another one is refused; None: wherever the
    token says.
    """

    name: Name
    targets: tuple[TargetName, ...] = Field(min_length=1)
    labels: dict[str, str] = {}
    hardware: Hardware
    address: str
    environment: Environment | None = None


class Enrolled(Wire):
    """`token` is the node's own one, shown once."""

    node: str
    environment: Environment
    registry_id: str
    token: str


class EngineRef(Wire):
    """`GET /v1/blobs/{digest}` redirects to the bytes. `memory_bytes`: what admission counts with."""

    digest: Digest
    size: int
    target: TargetName
    precision: str
    memory_bytes: int
    batchable: bool


class AssignedArm(Wire):
    """One arm that the node must hold. `contract` tells pipeline, observables and batch limits, `files` are
    those of the version that its pipeline reads (fetched like engines).

    `engine` None: no engine of this arm fits the node's targets; `reason` says so.
    """

    arm: ArmId
    version: str
    role: ArmRole
    share: Share
    engine: EngineRef | None
    reason: str = ""
    contract: VersionContract
    files: tuple[FileEntry, ...] = ()


class Fragment(Wire):
    """Of one deployment. `arms` has every arm to be loaded, shares included; `keep` those never unloaded.

    `mirror`: see `routes.Route`. `resolves`: ids of break-glass overrides that this generation settles.
    `published` False: the node is left out of the deployment's address list for the time of a release.
    """

    deployment: str
    model: Name
    fence: Fence
    unit: RoutingUnit
    salt: str
    arms: tuple[AssignedArm, ...]
    keep: tuple[ArmId, ...]
    mirror: Share = 0
    edges: CounterEdges = CounterEdges()
    drain_limit_s: float = 10
    published: bool = True
    resolves: tuple[str, ...] = ()
    retry_bad: tuple[Digest, ...] = ()


class Assignment(Wire):
    """The answer of `GET /v1/nodes/{id}/assignment`. Its ETag changes when anything of it does.

    `canary_lease_s`: without contact for so long, a canary's share goes back to stable.
    """

    node: str
    registry_id: str
    timeline: int
    report_every_s: float
    canary_lease_s: float = 120
    draining: bool = False
    fragments: tuple[Fragment, ...]


class SlotPhase(StrEnum):
    FETCHING = "fetching"
    VERIFYING = "verifying"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


class SlotReport(Wire):
    deployment: str
    arm: ArmId
    version: str
    engine: Digest | None
    phase: SlotPhase
    reason: str = ""
    progress: float | None = None
    load_ms: dict[str, float] = {}
    memory_bytes: Whole | None = None
    standby: Literal["warm", "host", "disk"] | None = None
    bad_digest: bool = False


class DeploymentReport(Wire):
    """What the node really does for one deployment. `lease_expired`: the canary's share is back at stable."""

    deployment: str
    fence: Fence | None
    switched: bool
    drained: bool
    shares: dict[ArmId, Share] = {}
    lease_expired: bool = False
    ready: bool = False


class Override(Wire):
    """A break-glass rollback made on the node itself while the registry was away."""

    id: str
    deployment: str
    base: Fence
    to: ArmId
    at: datetime
    by: str


class Report(Wire):
    """`incarnation` is new with every start of the agent. `says`: the last decision, as a sentence."""

    incarnation: str = Field(min_length=1, max_length=64)
    seq: int = Field(ge=0, le=LARGEST)
    slots: tuple[SlotReport, ...] = ()
    deployments: tuple[DeploymentReport, ...] = ()
    counters: tuple[CounterReport, ...] = ()
    overrides: tuple[Override, ...] = ()
    memory_free_bytes: Whole | None = None
    address: str | None = None
    says: str = Field(default="", max_length=2048)
    version: str = ""


class Applied(Wire):
    """Sent at once at each of the two moments. `local_ms`: since the agent learned of the generation."""

    incarnation: str
    deployment: str
    fence: Fence
    moment: Literal["switched", "drained"]
    local_ms: float = Field(ge=0)


class Node(Wire):
    """`state` is `unknown` when the last report is old; the rest is then as of `last_seen_at`."""

    id: str
    name: Name
    environment: Environment
    targets: tuple[TargetName, ...]
    labels: dict[str, str]
    hardware: Hardware
    address: str
    state: Literal["ready", "preparing", "draining", "unknown", "duplicate"]
    draining: bool
    last_seen_at: datetime | None
    incarnation: str | None
    slots: tuple[SlotReport, ...]
    deployments: tuple[DeploymentReport, ...]
    memory_free_bytes: int | None
    says: str
    revision: int
    enrolled_at: datetime
