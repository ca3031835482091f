"""What the controller does with a release for what its nodes say: pure, time comes in as an argument."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.contract.releases import ReleasePhase


@dataclass(frozen=True)
class NodeState:
    """Of one node of the deployment's pool. `failure`: why it can't load the candidate.

    `switched`, `drained`: it confirmed these of the release's newest generation.
    """

    id: str
    name: str
    fresh: bool
    ready: bool
    failure: str | None
    switched: bool
    drained: bool


@dataclass(frozen=True)
class Wait:
    """Nothing to do yet; `reason` says for what."""

    reason: str


@dataclass(frozen=True)
class Begin:
    """Preparation is over: the first step may begin. `left_out`: nodes that can't load the candidate."""

    left_out: tuple[NodeState, ...]


@dataclass(frozen=True)
class GiveUp:
    reason: str


@dataclass(frozen=True)
class Complete:
    laggards: tuple[NodeState, ...]


@dataclass(frozen=True)
class Returned:
    """Every reachable node is back on the good version."""

    laggards: tuple[NodeState, ...]


Decision = Wait | Begin | GiveUp | Complete | Returned


def _names(nodes: Sequence[NodeState]) -> str:
    return ", ".join(node.name for node in nodes)


def prepare(
    nodes: Sequence[NodeState], min_ready: int, since: datetime, now: datetime, limit_s: float
) -> Decision:
    """All fresh nodes are ready, or those that failed can be left out with enough remaining."""
    fresh = [node for node in nodes if node.fresh]
    failed = [node for node in fresh if node.failure is not None]
    ready = [node for node in fresh if node.ready]
    loading = [node for node in fresh if not node.ready and node.failure is None]
    waited = (now - since).total_seconds()
    if loading and waited < limit_s:
        return Wait(f"{len(ready)} of {len(fresh)} nodes are ready; loading: {_names(loading)}")
    out = tuple(failed + loading)
    if len(ready) >= min_ready:
        return Begin(out)
    if failed and not loading:
        told = "; ".join(f"{node.name}: {node.failure}" for node in failed)
        return GiveUp(f"{len(ready)} nodes could load it, at least {min_ready} are needed; {told}")
    if waited < limit_s:
        return Wait(f"{len(fresh)} nodes are in contact, at least {min_ready} are needed")
    return GiveUp(
        f"{len(ready)} nodes were ready after {limit_s:g} s, at least {min_ready} are needed"
        + (f"; still loading: {_names(loading)}" if loading else "")
    )


def converge(nodes: Sequence[NodeState], since: datetime, now: datetime, limit_s: float) -> Decision:
    """Completion waits for every live node; after the limit it names laggards and goes on."""
    behind = tuple(node for node in nodes if node.fresh and not node.drained)
    if not behind:
        return Complete(tuple(node for node in nodes if not node.fresh))
    if (now - since).total_seconds() < limit_s:
        return Wait(f"waits for {_names(behind)}")
    return Complete(tuple(node for node in nodes if not node.drained))


def give_back(nodes: Sequence[NodeState], since: datetime, now: datetime, limit_s: float) -> Decision:
    """A rollback is over when every live node confirmed twice, or after the limit with those named."""
    behind = tuple(node for node in nodes if node.fresh and not node.drained)
    if behind and (now - since).total_seconds() < limit_s:
        return Wait(f"waits for {_names(behind)}")
    return Returned(tuple(node for node in nodes if not node.drained))


def decide(
    phase: ReleasePhase,
    nodes: Sequence[NodeState],
    *,
    min_ready: int,
    since: datetime,
    now: datetime,
    prepare_limit_s: float,
    node_timeout_s: float,
) -> Decision:
    """Of a release that waits for its nodes. Raises ValueError for the other phases."""
    if phase is ReleasePhase.PREPARING:
        return prepare(nodes, min_ready, since, now, prepare_limit_s)
    if phase is ReleasePhase.COMPLETING:
        return converge(nodes, since, now, node_timeout_s)
    if phase is ReleasePhase.ROLLING_BACK:
        return give_back(nodes, since, now, node_timeout_s)
    raise ValueError(f"a release that is {phase} waits for no node")
