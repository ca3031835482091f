"""Which fragments the node follows: fences, break-glass overrides, and what an override changes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from registry.contract.nodes import AssignedArm, Assignment, Fragment, Override
from registry.contract.routes import BASIS_POINTS, ArmRole
from serving.agent.snapshot import Holding


@dataclass(frozen=True, slots=True)
class Merged:
    """`notes`: one sentence for each fragment that was not followed."""

    holdings: Mapping[str, Holding]
    notes: tuple[str, ...]


def merge(held: Mapping[str, Holding], assignment: Assignment, registry_id: str) -> Merged:
    """Follow an assignment as far as the fences allow.

    A deployment that the assignment doesn't name any more is kept as it is: nothing is unloaded because
    it vanished from the registry.
    """
    if assignment.registry_id != registry_id:
        note = (
            f"refused the assignment of registry {assignment.registry_id}: this node is enrolled with "
            f"{registry_id}; enrol it anew (an empty --state and a new token) to follow another registry"
        )
        return Merged(held, (note,))
    holdings = dict(held)
    notes: list[str] = []
    for fragment in assignment.fragments:
        before = holdings.get(fragment.deployment)
        refusal = _refusal(before, fragment, registry_id)
        if refusal:
            notes.append(refusal)
            continue
        holdings[fragment.deployment] = _follow(before, fragment)
    return Merged(holdings, tuple(notes))


def _refusal(before: Holding | None, fragment: Fragment, registry_id: str) -> str | None:
    fence, name = fragment.fence, fragment.deployment
    if fence.registry_id != registry_id:
        return (
            f"{name}: refused a generation of registry {fence.registry_id}, this node follows {registry_id}"
        )
    if before is None or fence == before.target.fence:
        return None
    held = before.target.fence
    if not fence.supersedes(held):
        return (
            f"{name}: refused generation {fence.generation} (timeline {fence.timeline}), this node holds "
            f"generation {held.generation} (timeline {held.timeline})"
        )
    override = before.override
    if override is not None and override.id not in fragment.resolves:
        return (
            f"{name}: generation {fence.generation} waits, it does not settle the direct rollback "
            f"{override.id} by {override.by}"
        )
    return None


def _follow(before: Holding | None, fragment: Fragment) -> Holding:
    if before is None:
        return Holding(fragment)
    override = before.override
    if override is not None and override.id not in fragment.resolves:
        return replace(before, target=overridden(fragment, override, _known(before)) or before.target)
    return replace(before, target=fragment, override=None)


def override_with(held: Holding, override: Override) -> Holding | str:
    """Put a direct rollback over what is held; a sentence when it can't be."""
    if override.base != held.target.fence:
        return (
            f"{override.deployment} is at generation {held.target.fence.generation}, not at "
            f"{override.base.generation} as the rollback assumes; look again and repeat it"
        )
    known = _known(held)
    target = overridden(held.target, override, known)
    if target is None:
        names = ", ".join(f"{arm.version} ({arm.arm[:12]})" for arm in known.values()) or "none"
        return f"arm {override.to} is not known on this node; known are: {names}"
    return replace(held, target=target, override=override)


def overridden(fragment: Fragment, override: Override, known: Mapping[str, AssignedArm]) -> Fragment | None:
    """The fragment with all traffic on the override's arm; None when that arm is not known."""
    chosen = known.get(override.to)
    if chosen is None or chosen.engine is None:
        return None
    others = [arm.model_copy(update={"share": 0, "role": _aside(arm.role)}) for arm in fragment.arms]
    stable = chosen.model_copy(update={"share": BASIS_POINTS, "role": ArmRole.STABLE})
    arms = (stable, *(arm for arm in others if arm.arm != override.to))
    keep = tuple(dict.fromkeys((*fragment.keep, *(arm.arm for arm in arms))))
    return fragment.model_copy(update={"arms": arms, "keep": keep, "mirror": 0})


def _aside(role: ArmRole) -> ArmRole:
    return ArmRole.STANDBY if role is ArmRole.STABLE else role


def _known(held: Holding) -> dict[str, AssignedArm]:
    arms = {arm.arm: arm for arm in held.serving.arms} if held.serving else {}
    arms.update({arm.arm: arm for arm in held.target.arms})
    return arms
