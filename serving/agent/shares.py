"""Which arm really gets which share. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from registry.contract.nodes import Fragment
from registry.contract.routes import BASIS_POINTS, ArmRole

INHERIT_FROM = BASIS_POINTS // 2


@dataclass(frozen=True, slots=True)
class Effective:
    """`shares` sum to 10 000 or to 0, over ready arms only. `complete`: they are the requested ones."""

    shares: Mapping[str, int]
    complete: bool
    lease_expired: bool


def requested(fragment: Fragment) -> dict[str, int]:
    """Arms that the fragment gives traffic to, in basis points."""
    return {arm.arm: arm.share for arm in fragment.arms if arm.share > 0}


def leased(fragment: Fragment, alive: bool) -> tuple[dict[str, int], bool]:
    """Requested shares after the canary's lease, and whether the lease took something away.

    A route that gives everything to one arm is no trial and never expires.
    """
    shares = requested(fragment)
    stable = _stable(fragment)
    canaries = [
        arm.arm for arm in fragment.arms if arm.role is ArmRole.CANARY and 0 < arm.share < BASIS_POINTS
    ]
    if alive or stable is None or not canaries:
        return shares, False
    back = sum(shares.pop(arm) for arm in canaries)
    shares[stable] = shares.get(stable, 0) + back
    return shares, True


def effective(fragment: Fragment, ready: Collection[str], alive: bool) -> Effective:
    """Shares over ready arms: what a lost arm had goes to stable.

    With stable lost, an arm that has at least half of the traffic inherits it; an arm on trial with
    less never does: then nothing answers (503) until stable is back.
    """
    wanted, expired = leased(fragment, alive)
    able = {arm: share for arm, share in wanted.items() if arm in ready}
    lost = sum(wanted.values()) - sum(able.values())
    if not lost:
        return Effective(able, not expired, expired)
    stable = _stable(fragment)
    heir = stable if stable in ready else max(able, key=lambda arm: able[arm], default=None)
    if heir is None or (heir != stable and able[heir] < INHERIT_FROM):
        return Effective({}, False, expired)
    able[heir] = able.get(heir, 0) + lost
    return Effective(able, False, expired)


def satisfied(fragment: Fragment, ready: Collection[str]) -> bool:
    """True when every arm with a share is ready, so that the fragment may take effect."""
    return all(arm in ready for arm in requested(fragment))


def same_routing(one: Fragment, other: Fragment) -> bool:
    """True when the two differ in nothing that moves traffic."""
    return one.fence == other.fence and requested(one) == requested(other)


def _stable(fragment: Fragment) -> str | None:
    return next((arm.arm for arm in fragment.arms if arm.role is ArmRole.STABLE), None)
