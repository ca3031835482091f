"""The nodes of a deployment: what was requested of each, what each observes, and how fresh that is."""

from dataclasses import dataclass
from datetime import datetime

from registry.contract.deployments import ObservedArm, ObservedNode
from registry.contract.nodes import SlotPhase
from web.views.facts import Facts
from web.views.words import percent


@dataclass(frozen=True, slots=True)
class NodeArm:
    """One arm on one node; `reason` where the phase has one."""

    name: str
    role: str
    requested: str
    observed: str
    phase: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """`level` and `word` as in verdicts; a node that is silent is grey, whatever it said last."""

    name: str
    glyph: str
    word: str
    level: str
    arms: tuple[NodeArm, ...]
    generation: str
    behind: bool
    silent_since: datetime | None
    says: str


def rows(facts: Facts) -> tuple[NodeRow, ...]:
    """In the registry's order."""
    return tuple(_row(facts, node) for node in facts.nodes)


def _row(facts: Facts, node: ObservedNode) -> NodeRow:
    glyph, word, level = _state(node)
    route = facts.deployment.requested
    wanted = {arm.arm: arm.share for arm in route.arms} if route else {}
    behind = node.applied is None or route is None or node.applied != route.fence
    return NodeRow(
        node.name,
        glyph,
        word,
        level,
        tuple(_arm(facts, node, arm, wanted) for arm in _ordered(node)),
        "–" if node.applied is None else str(node.applied.generation),
        behind,
        None if node.fresh else node.last_seen_at,
        node.says,
    )


def _state(node: ObservedNode) -> tuple[str, str, str]:
    if not node.fresh:
        return "?", "unknown", "unknown"
    if any(arm.phase == SlotPhase.FAILED for arm in node.arms):
        return "▲", "can't load", "warn"
    if node.published:
        return "✔", "ready", "good"
    if node.applied is None and not node.arms:
        return "○", "not serving yet", "none"
    return "◐", "not ready", "busy"


def _arm(facts: Facts, node: ObservedNode, arm: ObservedArm, wanted: dict[str, int]) -> NodeArm:
    """What an old report says of shares is history: it is shown as unknown."""
    return NodeArm(
        facts.names(arm.version),
        arm.role if arm.role in ("stable", "canary") else "other",
        percent(wanted.get(arm.arm, 0)),
        percent(arm.share) if node.fresh else "?",
        arm.phase if arm.standby is None else f"{arm.phase}, standby {arm.standby}",
        arm.reason,
    )


def _ordered(node: ObservedNode) -> list[ObservedArm]:
    return sorted(node.arms, key=lambda arm: (-arm.share, arm.version))
