"""What a verdict makes the controller do, by phase and policy. Pure; documentation is generated from it."""

from dataclasses import dataclass
from typing import Literal, assert_never

from registry.contract.deployments import Policy
from registry.contract.releases import Hold, ReleasePhase
from registry.contract.verdicts import VerdictKind

Action = Literal["nothing", "step", "hold", "pause", "freeze", "roll_back"]


@dataclass(frozen=True)
class Consequence:
    """`why` is told with the action."""

    action: Action
    why: str = ""


def consequence(phase: ReleasePhase, hold: str, verdict: VerdictKind, policy: Policy) -> Consequence:
    """Bad evidence works through every hold; good evidence moves only what nobody holds."""
    if phase is not ReleasePhase.RUNNING:
        return Consequence("nothing", "evidence is judged while a release is running")
    match verdict:
        case VerdictKind.ROLL_BACK:
            if policy.auto_roll_back:
                return Consequence("roll_back")
            return Consequence("freeze", "automatic rollback is switched off in the policy")
        case VerdictKind.FREEZE:
            return Consequence("nothing" if hold == Hold.FROZEN else "freeze")
        case VerdictKind.ADVANCE:
            if hold in (Hold.PAUSED, Hold.FROZEN):
                return Consequence("nothing", f"the release is {hold}")
            if not policy.auto_advance:
                return Consequence("hold", "the evidence would advance; steps are advanced by command here")
            return Consequence("step")
        case VerdictKind.INCONCLUSIVE:
            return Consequence("nothing" if hold else "pause", "the longest hold is over without proof")
        case VerdictKind.HOLD:
            return Consequence("nothing")
    assert_never(verdict)


def effect(phase: ReleasePhase, verdict: VerdictKind) -> str:
    """The same, in words, under the default policy."""
    match consequence(phase, "", verdict, Policy()).action:
        case "nothing":
            return "stays"
        case "step":
            return "next share; the last one → completing"
        case "hold":
            return "running (held)"
        case "pause":
            return "running (paused), a person is asked"
        case "freeze":
            return "running (frozen), shares stay"
        case "roll_back":
            return "rolling_back: stable takes all, pinned"
        case other:
            assert_never(other)
