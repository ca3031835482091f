"""Who gets how much of the traffic: as requested, and as nodes observe it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from registry.contract.routes import ArmRole
from web.views.facts import Facts
from web.views.words import percent

Role = Literal["stable", "canary", "other"]


@dataclass(frozen=True, slots=True)
class Segment:
    """`share` in basis points."""

    arm: str
    name: str
    role: Role
    share: int

    @property
    def percent(self) -> str:
        return percent(self.share)

    def __str__(self) -> str:
        return f"{self.name} {self.percent}"


@dataclass(frozen=True, slots=True)
class Shares:
    """`observed` None: no fresh node tells. `agree`: nodes do what was requested of them."""

    requested: tuple[Segment, ...]
    observed: tuple[Segment, ...] | None

    @property
    def agree(self) -> bool:
        wanted = {segment.arm: segment.share for segment in self.requested}
        return self.observed is not None and {s.arm: s.share for s in self.observed} == wanted

    @property
    def legend(self) -> tuple[Segment, ...]:
        """Every arm once, as requested where it is."""
        known = {segment.arm for segment in self.requested}
        return self.requested + tuple(s for s in self.observed or () if s.arm not in known)


def shares(facts: Facts) -> Shares:
    route = facts.deployment.requested
    arms = route.arms if route else ()
    roles: dict[str, Role] = {arm.arm: _role(arm.role) for arm in arms}
    names = {arm.arm: facts.names(arm.version) for arm in arms} | _reported(facts)
    requested = tuple(
        Segment(arm.arm, names[arm.arm], roles[arm.arm], arm.share) for arm in arms if arm.share
    )
    fresh = [node for node in facts.nodes if node.fresh]
    if facts.status is None or not fresh:
        return Shares(requested, None)
    return Shares(requested, _ordered(facts.status.observed, names, roles))


def _reported(facts: Facts) -> dict[str, str]:
    return {arm.arm: facts.names(arm.version) for node in facts.nodes for arm in node.arms}


def _ordered(
    observed: Mapping[str, int], names: Mapping[str, str], roles: Mapping[str, Role]
) -> tuple[Segment, ...]:
    order = ("stable", "other", "canary")
    found = [
        Segment(arm, names.get(arm, arm[:12]), roles.get(arm, "other"), share)
        for arm, share in observed.items()
        if share
    ]
    return tuple(sorted(found, key=lambda segment: (order.index(segment.role), segment.name)))


def _role(role: ArmRole) -> Role:
    if role is ArmRole.STABLE:
        return "stable"
    return "canary" if role is ArmRole.CANARY else "other"
