"""Which arm gets which share in each phase of a release, and what nodes keep loaded. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from registry.contract.deployments import Arm, PlanStep
from registry.contract.routes import BASIS_POINTS, ArmRole, RouteArm


@dataclass(frozen=True)
class Table:
    """Arms with shares, and the arms that stay loaded."""

    arms: tuple[RouteArm, ...]
    keep: tuple[str, ...]


def name_of(arm: Arm) -> str:
    return f"{arm.version}@{arm.precision}"


def _entry(arm: Arm, role: ArmRole, share: int) -> RouteArm:
    return RouteArm(arm=arm.id, version=name_of(arm), role=role, share=share)


def on_trial(stable: Arm | None, candidate: Arm, share: int) -> Table:
    """The candidate takes `share`, stable the rest. Share 0: the candidate is only loaded and warmed.

    Without a stable arm a share of 0 is an empty route: requests are answered 503 + Retry-After.
    """
    if stable is None:
        return Table((_entry(candidate, ArmRole.CANARY, share),), (candidate.id,))
    return Table(
        (
            _entry(stable, ArmRole.STABLE, BASIS_POINTS - share),
            _entry(candidate, ArmRole.CANARY, share),
        ),
        (stable.id, candidate.id),
    )


def settled(stable: Arm | None, standby: Arm | None) -> Table:
    """Stable takes everything; standby, where there is one, stays loaded and warm."""
    if stable is None:
        return Table((), ())
    arms = [_entry(stable, ArmRole.STABLE, BASIS_POINTS)]
    if standby is not None and standby.id != stable.id:
        arms.append(_entry(standby, ArmRole.STANDBY, 0))
    return Table(tuple(arms), tuple(arm.arm for arm in arms))


def plan_of(plan: Sequence[PlanStep], first: bool) -> tuple[PlanStep, ...]:
    """A first release has nothing to compare with: one step to everything."""
    return (PlanStep(share=BASIS_POINTS, dwell_s=0),) if first else tuple(plan)


def is_last(plan: Sequence[PlanStep], step: int) -> bool:
    """Whether the candidate has everything then: only from there a release completes."""
    return step >= len(plan) or plan[step].share == BASIS_POINTS


def exhausted(plan: Sequence[PlanStep], step: int) -> str | None:
    """Why no step follows `step` (-1: none was taken yet); None: one does, or the release completes there."""
    if step + 1 < len(plan) or is_last(plan, step):
        return None
    return (
        f"the plan ends at {plan[step].share / 100:g} % and a release completes only from 100 %: "
        "abort it, and promote with a plan that ends at 10000"
    )
