"""The decision rule: evidence in, one verdict with its reasons out. Pure; it decides nothing by itself.

In this order: the split is not what was asked for → FREEZE, every comparison is void. A family stands at its
threshold → ROLL BACK. One engine in both arms and their distributions differ → FREEZE. No canary requests →
HOLD. Dwell over and everything proven → ADVANCE. Longest hold over → INCONCLUSIVE. Else HOLD.
"""

from __future__ import annotations

from dataclasses import dataclass

from registry.contract.verdicts import GateProgress, VerdictKind
from registry.statistics import gates, sentences
from registry.statistics.evidence import Evidence
from registry.statistics.gates import Pace
from registry.statistics.tolerances import LEARNING_BATCHES
from registry.statistics.trial import Trial


@dataclass(frozen=True, slots=True)
class StepClock:
    """elapsed_s: since the step began; dwell_s: its least length; longest_hold_s: when to ask a person."""

    elapsed_s: float
    dwell_s: float
    longest_hold_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict. gate: the one that led to it, where one did (its family, value, threshold and n).

    canary_n, stable_n, pairs: what the whole evidence rests on (stable's includes the time before).
    """

    kind: VerdictKind
    sentence: str
    gate: GateProgress | None
    gates: tuple[GateProgress, ...]
    canary_n: int
    stable_n: int
    pairs: int


def decide(evidence: Evidence, trial: Trial, clock: StepClock, pace: Pace) -> Decision:
    """The verdict on replicate 0 of the evidence."""
    every = gates.all_gates(evidence, trial, pace)
    kind, sentence, gate = _rule(evidence, every, clock)
    return Decision(
        kind=kind,
        sentence=sentence,
        gate=gate,
        gates=every,
        canary_n=int(evidence.errors.canary_n[0, 0]),
        stable_n=int(evidence.errors.stable_n[0, 0]),
        pairs=int(evidence.paired_failed.n[0, 0]),
    )


def _rule(
    evidence: Evidence, every: tuple[GateProgress, ...], clock: StepClock
) -> tuple[VerdictKind, str, GateProgress | None]:
    fired = [gate for gate in every if gate.outcome == "fired"]
    for family, purpose, kind, lead in _ALARMS:
        for gate in sorted(fired, key=_strength, reverse=True):
            if gate.purpose == purpose and (family is None or gate.family == family):
                return kind, f"{lead}: {gate.sentence} ({_against(gate)})", gate
    if evidence.proofs.canary_n[0] == 0.0:
        return VerdictKind.HOLD, "Hold: no canary requests in this step, and no data proves nothing", None
    waiting = [gate for gate in every if gate.purpose == "advance" and gate.outcome != "passed"]
    if not waiting and clock.elapsed_s >= clock.dwell_s:
        proven = ", ".join(gate.name for gate in every if gate.purpose == "advance")
        return VerdictKind.ADVANCE, f"Advance: {proven} in this step", None
    if waiting and clock.elapsed_s >= clock.longest_hold_s:
        worst = _slowest(waiting)
        return (
            VerdictKind.INCONCLUSIVE,
            f"Inconclusive after {sentences.seconds(clock.elapsed_s)}, ask a person: {_missing(worst)}",
            worst,
        )
    return _hold(evidence, waiting, clock)


_ALARMS = (
    ("split", "freeze", VerdictKind.FREEZE, "Freeze, no comparison counts until the split is explained"),
    (None, "roll_back", VerdictKind.ROLL_BACK, "Roll back"),
    ("distribution", "freeze", VerdictKind.FREEZE, "Freeze"),
)


def _hold(
    evidence: Evidence, waiting: list[GateProgress], clock: StepClock
) -> tuple[VerdictKind, str, GateProgress | None]:
    seen = int(evidence.clumping.errors.batches[0])
    if seen <= LEARNING_BATCHES:
        return (
            VerdictKind.HOLD,
            f"Hold: learning how stable varies ({seen} of {LEARNING_BATCHES + 1} looks with its traffic); "
            "until then only evidence that no bursts explain rolls back",
            None,
        )
    if waiting:
        worst = _slowest(waiting)
        return VerdictKind.HOLD, f"Hold: {_missing(worst)}", worst
    left = sentences.seconds(clock.dwell_s - clock.elapsed_s)
    return VerdictKind.HOLD, f"Hold: everything is proven, the step's dwell ends in {left}", None


def _strength(gate: GateProgress) -> float:
    return gate.value or 0.0


def _slowest(waiting: list[GateProgress]) -> GateProgress:
    return max(waiting, key=lambda gate: float("inf") if gate.wait_s is None else gate.wait_s)


def _against(gate: GateProgress) -> str:
    return f"evidence {gate.value or 0.0:,.0f} where {gate.threshold or 0.0:,.0f} decides"


def _missing(gate: GateProgress) -> str:
    wait = "it can't be said how long at present traffic"
    if gate.wait_s is not None:
        wait = f"about {sentences.seconds(gate.wait_s)} more at present traffic"
    value, line = gate.value or 0.0, gate.threshold or 0.0
    return f"not yet {gate.name} ({value:.2g} of {line:g}: {gate.sentence}; {wait})"
