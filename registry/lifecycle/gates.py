"""May an engine be released? From its gates alone; policy may still allow what is only unproven."""

from collections.abc import Sequence
from dataclasses import dataclass

from registry.contract.engines import Gate, GateOutcome

AGAINST = (GateOutcome.FAILED, GateOutcome.INSUFFICIENT)


@dataclass(frozen=True)
class Judgement:
    """`reasons` are the gates' own sentences; empty when nothing speaks against a release."""

    releasable: bool
    unproven: bool
    reasons: tuple[str, ...]


def judge(gates: Sequence[Gate], proven: bool) -> Judgement:
    """`proven`: the version has golden pairs, so a build that did not check them proves nothing.

    Too little data never counts as accepted. A gate that was left out is not one that was passed.
    """
    reasons = [
        gate.reason or f"the {gate.name} gate ended as {gate.outcome}"
        for gate in gates
        if gate.outcome in AGAINST
    ]
    outcomes = {gate.name: gate.outcome for gate in gates}
    if "parity" not in outcomes:
        reasons.append("the build did not compare the engine with its source (no parity gate)")
    golden = outcomes.get("golden", GateOutcome.UNPROVEN)
    if proven and golden in (GateOutcome.UNPROVEN, GateOutcome.SKIPPED):
        reasons.append("the version has golden pairs, but the build did not check them")
    unproven = not proven or GateOutcome.UNPROVEN in outcomes.values()
    return Judgement(not reasons, unproven, tuple(reasons))
