"""What a press of "roll back" would do now, or why it can't be pressed and what to do instead."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from registry.contract.deployments import Arm, Deployment
from registry.contract.releases import Release
from registry.contract.routes import BASIS_POINTS, Route
from registry.contract.tokens import Role, Whoami
from web.views.facts import Facts
from web.views.naming import Names


@dataclass(frozen=True, slots=True)
class Offer:
    """`target` is set exactly where a press is possible. `others`: "Choose another version" is of use."""

    href: str
    target: Arm | None = None
    name: str = ""
    why_not: str = ""
    remedy: str = ""
    command: str = ""
    others: bool = False
    receipt: str = ""

    @property
    def possible(self) -> bool:
        return self.target is not None


@dataclass(frozen=True, slots=True)
class Choice:
    """A version that once had all traffic, newest first."""

    arm: str
    version: str
    name: str


def may_release(who: Whoami) -> bool:
    return not {Role.RELEASER, Role.ADMIN}.isdisjoint(who.roles)


def forbidden(who: Whoami) -> str:
    """Why this visitor can't change anything; empty: it may."""
    if may_release(who):
        return ""
    return f"You are signed in as {who.name} ({', '.join(who.roles)}); this needs the role releaser."


def default_target(deployment: Deployment, active: Release | None) -> Arm | None:
    """As the registry chooses it: during a release its stable, else what it names itself."""
    return active.from_arm if active is not None else deployment.rollback_to


def offer(facts: Facts, who: Whoami) -> Offer:
    deployment, active = facts.deployment, facts.active
    href = f"/d/{deployment.ref}/rollback"
    against = forbidden(who)
    if against:
        return Offer(
            href,
            why_not=against,
            remedy="Ask a releaser, or sign in with a releaser's token.",
            command=f"slipway rollback {deployment.ref}",
        )
    target = default_target(deployment, active)
    if active is not None and target is None:
        return Offer(
            href,
            why_not=f"Release {active.number} is the first one here: there is no earlier version.",
            remedy="Abort it instead:",
            command=f"slipway release abort {deployment.ref}",
        )
    if deployment.stable is None:
        return Offer(href, why_not="Nothing is released here yet.")
    name = facts.names(deployment.stable)
    if target is None and deployment.last_good is not None:
        # Further back than the last good version: which one before it was good, nobody knows but people.
        return Offer(
            href,
            why_not=f"Rolled back to {name} by name; which version before it was good is for you to say.",
            others=True,
            receipt=facts.in_force.id if facts.in_force else "",
            remedy="",
        )
    if target is None:
        return Offer(
            href,
            why_not=f"{name} is the first version here: there is no earlier one to go back to.",
            remedy="Release another version:",
            command=f"slipway promote {deployment.model}@VERSION --to {deployment.ref}",
        )
    if active is None and target.id == deployment.stable.id:
        return _there_already(facts, href, facts.names(target))
    return Offer(href, target, facts.names(target), others=True)


def _there_already(facts: Facts, href: str, name: str) -> Offer:
    receipt = facts.in_force
    if receipt is None:
        return Offer(href, why_not=f"{name}, the last good version, serves already.", others=True, remedy="")
    by = "by itself" if receipt.automatic else f"by {receipt.asked_by}"
    return Offer(href, why_not=f"Already rolled back to {name} {by}.", others=True, receipt=receipt.id)


def choices(routes: Sequence[Route], leaving: Iterable[str], names: Names) -> tuple[Choice, ...]:
    """Where an explicit rollback may go; `leaving` are arms that hold all traffic now."""
    found: dict[str, Choice] = {}
    skipped = set(leaving)
    for route in routes:
        for arm in route.arms:
            if arm.share == BASIS_POINTS and arm.arm not in skipped:
                found.setdefault(arm.arm, Choice(arm.arm, arm.version, names(arm.version)))
    return tuple(found.values())
