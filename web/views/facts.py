"""What is known of one deployment when a page is drawn, and what follows from it directly."""

from dataclasses import dataclass
from functools import cached_property

from registry.contract.deployments import Deployment, DeploymentStatus, ObservedNode
from registry.contract.releases import Receipt, Release
from web.views.naming import Names, full


@dataclass(frozen=True)
class Facts:
    """`release` and `receipt` are the newest ones. None: there is none, or it could not be read."""

    deployment: Deployment
    status: DeploymentStatus | None
    release: Release | None
    receipt: Receipt | None

    @cached_property
    def names(self) -> Names:
        """Over every arm that the facts mention."""
        route, release, receipt = self.deployment.requested, self.release, self.receipt
        found = [arm.version for arm in route.arms] if route else []
        arms = [self.deployment.stable, self.deployment.last_good, self.deployment.rollback_to]
        if release:
            arms += [release.arm, release.from_arm]
        if receipt:
            arms += [*receipt.from_arms, receipt.to_arm]
        return Names([*found, *(full(arm) for arm in arms if arm)])

    @property
    def active(self) -> Release | None:
        """The release that is under way."""
        number = self.deployment.active_release
        return self.release if self.release and self.release.number == number else None

    @property
    def in_force(self) -> Receipt | None:
        """The rollback that made the present route."""
        route, receipt = self.deployment.requested, self.receipt
        return receipt if receipt and route and route.fence.generation == receipt.generation else None

    @property
    def rolling_back(self) -> bool:
        return self.in_force is not None and not self.in_force.final

    @property
    def nodes(self) -> tuple[ObservedNode, ...]:
        return self.status.nodes if self.status else ()

    @property
    def silent(self) -> tuple[ObservedNode, ...]:
        return tuple(node for node in self.nodes if not node.fresh)

    @property
    def ready(self) -> tuple[ObservedNode, ...]:
        """Fresh, and able to answer every arm."""
        return tuple(node for node in self.nodes if node.fresh and node.published)
