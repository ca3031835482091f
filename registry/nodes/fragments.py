"""What one deployment means to the nodes of one kind: the fragment of their assignment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from registry.contract.identity import ArmId
from registry.contract.nodes import AssignedArm, EngineRef, Fragment
from registry.contract.routes import ArmRole, Route
from registry.contract.versions import FileEntry, VersionContract

Targets = tuple[str, ...]


@dataclass(frozen=True)
class NodeFacts:
    """`targets`: what the node can load, best first."""

    id: str
    name: str
    environment: str
    targets: Targets
    labels: Mapping[str, str]
    draining: bool


@dataclass(frozen=True)
class ArmFacts:
    """Immutable, as arms are. `engines` by target; `version` is MODEL@NUMBER@PRECISION; `files`: those of the
    version that its pipeline reads."""

    id: ArmId
    version: str
    engines: Mapping[str, EngineRef]
    contract: VersionContract
    files: tuple[FileEntry, ...] = ()


@dataclass(frozen=True)
class DeploymentFacts:
    """A deployment and its newest route. `left_out`: nodes that its active release goes without."""

    id: str
    ref: str
    environment: str
    model: str
    selector: Mapping[str, str]
    revision: int
    drain_limit_s: float
    route: Route
    left_out: frozenset[str]

    @property
    def generation(self) -> int:
        return self.route.fence.generation

    @property
    def order(self) -> tuple[int, int, int]:
        """Facts of a lower order are older."""
        return (self.route.fence.timeline, self.generation, self.revision)

    @property
    def arms(self) -> tuple[ArmId, ...]:
        """Every arm that a node must know: those of the route, then what it keeps besides."""
        routed = tuple(arm.arm for arm in self.route.arms)
        return routed + tuple(arm for arm in self.route.keep if arm not in routed)

    def applies_to(self, node: NodeFacts) -> bool:
        """A node serves what is of its environment and selects labels that it has."""
        return self.environment == node.environment and all(
            node.labels.get(label) == value for label, value in self.selector.items()
        )


def pick_engine(arm: ArmFacts, targets: Targets) -> tuple[EngineRef | None, str]:
    """The engine for the node's best target, or None with the reason."""
    for target in targets:
        engine = arm.engines.get(target)
        if engine is not None:
            return engine, ""
    return None, (
        f"{arm.version} has engines for {', '.join(sorted(arm.engines)) or 'no target'}; "
        f"this node loads {', '.join(targets)}"
    )


def build(deployment: DeploymentFacts, arms: Mapping[ArmId, ArmFacts], targets: Targets) -> Fragment:
    """The fragment for every node with these targets. `published` is each node's own matter."""
    route = deployment.route
    shares = {arm.arm: arm for arm in route.arms}
    assigned = []
    for arm_id in deployment.arms:
        arm, routed = arms[arm_id], shares.get(arm_id)
        engine, reason = pick_engine(arm, targets)
        assigned.append(
            AssignedArm(
                arm=arm_id,
                version=arm.version,
                role=routed.role if routed else ArmRole.STANDBY,
                share=routed.share if routed else 0,
                engine=engine,
                reason=reason,
                contract=arm.contract,
                files=arm.files,
            )
        )
    return Fragment(
        deployment=deployment.ref,
        model=deployment.model,
        fence=route.fence,
        unit=route.unit,
        salt=route.salt,
        arms=tuple(assigned),
        keep=route.keep,
        mirror=route.mirror,
        edges=route.edges,
        drain_limit_s=deployment.drain_limit_s,
        resolves=route.resolves,
    )
