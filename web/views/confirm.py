"""The page before the press: one sentence that says what will happen, and what else there is to know."""

from collections.abc import Sequence
from dataclasses import dataclass

from registry.contract.deployments import Arm
from registry.contract.nodes import SlotPhase
from registry.contract.routes import BASIS_POINTS
from web.views.facts import Facts
from web.views.offer import Choice
from web.views.shares import shares
from web.views.words import listed, nodes, percent, span


@dataclass(frozen=True, slots=True)
class Confirm:
    """`explicit`: chosen under "another version", not the registry's own choice. `seen`: route generation."""

    ref: str
    environment: str
    target: Arm
    target_name: str
    explicit: bool
    seen: int
    stops: str
    serves: str
    keep: str
    details: tuple[str, ...]
    choices: tuple[Choice, ...]


def confirm(facts: Facts, target: Arm, choices: Sequence[Choice], *, explicit: bool) -> Confirm:
    deployment, name = facts.deployment, facts.names(target)
    leaving = [segment for segment in shares(facts).requested if segment.arm != target.id]
    stops = listed([f"{segment.name} ({percent(segment.share)})" for segment in leaving])
    kept = leaving[-1].name if leaving else name
    if not leaving and facts.active is not None:
        kept = facts.names(facts.active.arm)
        stops = f"{kept} (no traffic yet)"
    route = deployment.requested
    return Confirm(
        deployment.ref,
        deployment.environment,
        target,
        name,
        explicit,
        route.fence.generation if route else 0,
        f"{stops} stops." if stops else "",
        f"{name} serves {percent(BASIS_POINTS)} on {_where(facts, target)}",
        kept,
        tuple(_details(facts, target, name)),
        tuple(choice for choice in choices if choice.arm != target.id),
    )


def _where(facts: Facts, target: Arm) -> str:
    """How many nodes, and how soon."""
    if facts.status is None:
        return "every node that is reachable."
    fresh = [node for node in facts.nodes if node.fresh]
    cold = _cold(facts, target)
    soon = f"as soon as {listed(cold)} loaded it" if cold else "within about a second"
    return f"{nodes(len(fresh))}, {soon}."


def _cold(facts: Facts, target: Arm) -> list[str]:
    return [
        node.name
        for node in facts.nodes
        if node.fresh and not any(arm.arm == target.id and arm.phase == SlotPhase.READY for arm in node.arms)
    ]


def _details(facts: Facts, target: Arm, name: str) -> list[str]:
    deployment = facts.deployment
    told = [
        f"Requests that are being answered now end first, at most {span(deployment.policy.drain_limit_s)}; "
        "none is failed by the switch.",
        "Automation goes off: nothing is released here until somebody lifts the pin.",
    ]
    if facts.status is not None:
        cold = _cold(facts, target)
        told.append(
            f"{name} has to be loaded on {listed(cold)}."
            if cold
            else f"{name} is loaded and warm everywhere."
        )
    else:
        told.append("What nodes do is not known at the moment; the rollback reaches all that are in contact.")
    silent = [node.name for node in facts.silent]
    if silent:
        told.append(
            f"No word from {listed(silent)} at the moment: a silent node returns a canary's share to stable "
            "by itself, and the receipt names it until it confirms."
        )
    if facts.active is not None:
        told.append(f"Release {facts.active.number} ends as rolled back.")
    return told
