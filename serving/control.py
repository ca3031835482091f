"""What the agent and its gateway workers tell each other, one JSON object a line over a unix socket.

The agent listens; each gateway worker connects and says Hello. The agent sends the whole Table whenever
anything of it changes; a worker swaps it in by one assignment, answers Taken, and later Drained.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from registry.contract.counters import CounterEdges
from registry.contract.identity import ArmId, Digest
from registry.contract.routes import ArmRole, Fence, RoutingUnit, Share
from registry.contract.versions import VersionContract
from registry.contract.wire import Wire


def blob_path(state: Path, digest: str) -> Path:
    """Where the agent keeps the bytes of a digest in a node's state directory."""
    return state / "engines" / digest / "model.onnx"


class ArmEntry(Wire):
    """`socket`: the engine process's unix socket, None while the arm is not loaded (share is 0 then).

    `files`: path in the version → digest of what the pipeline reads; the bytes lie at `blob_path`.
    """

    arm: ArmId
    version: str
    role: ArmRole
    share: Share
    engine: str
    socket: str | None
    batchable: bool
    contract: VersionContract
    files: dict[str, Digest] = {}


class TableEntry(Wire):
    """One deployment. Shares are those in effect on this node: an expired canary lease is applied already.

    `estimate_s`: while nothing can answer yet, what Retry-After says.
    """

    deployment: str
    model: str
    fence: Fence
    unit: RoutingUnit
    salt: str
    arms: tuple[ArmEntry, ...]
    mirror: Share
    edges: CounterEdges
    drain_limit_s: float
    estimate_s: float = 1


class Table(Wire):
    """`seq` grows with every table of one agent; `draining`: readiness is off, requests still answered."""

    kind: Literal["table"] = "table"
    seq: int
    registry_id: str
    entries: tuple[TableEntry, ...]
    draining: bool = False


class Hello(Wire):
    kind: Literal["hello"] = "hello"
    worker: int
    pid: int
    port: int


class Taken(Wire):
    """The worker routes by table `seq` from now on."""

    kind: Literal["taken"] = "taken"
    worker: int
    seq: int


class Drained(Wire):
    """No request that was routed by a generation below `fence` is queued or running on an arm that the
    generation of `fence` gives no share."""

    kind: Literal["drained"] = "drained"
    worker: int
    deployment: str
    fence: Fence


class EngineLost(Wire):
    """The worker's connection to an engine broke or a run passed its hard limit: the agent replaces it."""

    kind: Literal["engine_lost"] = "engine_lost"
    worker: int
    deployment: str
    arm: ArmId
    reason: str


ToGateway = Table
FromGateway = Annotated[Hello | Taken | Drained | EngineLost, Field(discriminator="kind")]
