"""Each test beside its line: value, threshold, sample size, and how long it still needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from registry.contract.verdicts import GateProgress, Verdict
from web.views.words import figure, span

PURPOSES = {
    "roll_back": "Would roll back",
    "advance": "Must be proven before the next step",
    "freeze": "Would freeze",
    "shown": "Shown, decides nothing",
}
OUTCOMES = {
    "fired": ("✖", "fired", "bad"),
    "passed": ("✔", "passed", "good"),
    "waiting": ("◐", "waiting", "busy"),
    "not_enough_data": ("?", "not enough data", "unknown"),
    "differs": ("≠", "differs", "unknown"),
}
# A passed test that would roll back or freeze has not fired: silence is no proof of health.
QUIET = ("○", "quiet", "none")


@dataclass(frozen=True, slots=True)
class Gate:
    """`fill`: how far the value is towards its line, 0 to 1.2, where both are known."""

    name: str
    glyph: str
    word: str
    level: str
    value: str
    threshold: str
    n: str
    wait: str
    sentence: str
    fill: float | None


@dataclass(frozen=True, slots=True)
class GateGroup:
    title: str
    gates: tuple[Gate, ...]


def groups(verdict: Verdict) -> tuple[GateGroup, ...]:
    """In the order of what they may do; empty groups are left out."""
    made = [
        GateGroup(title, tuple(_gate(gate) for gate in _worst_first(verdict.gates, purpose)))
        for purpose, title in PURPOSES.items()
    ]
    return tuple(group for group in made if group.gates)


def _worst_first(gates: Sequence[GateProgress], purpose: str) -> list[GateProgress]:
    order = ("fired", "differs", "waiting", "not_enough_data", "passed")
    return sorted((g for g in gates if g.purpose == purpose), key=lambda gate: order.index(gate.outcome))


def _gate(gate: GateProgress) -> Gate:
    glyph, word, level = OUTCOMES[gate.outcome]
    if gate.purpose != "advance" and gate.outcome == "passed":
        glyph, word, level = QUIET
    return Gate(
        gate.name,
        glyph,
        word,
        level,
        "–" if gate.value is None else figure(gate.value),
        "–" if gate.threshold is None else figure(gate.threshold),
        f"{gate.n:,}",
        "–" if gate.wait_s is None else f"about {span(gate.wait_s)}",
        gate.sentence,
        None if gate.value is None or gate.threshold is None else fill(gate.value, gate.threshold),
    )


def fill(value: float, threshold: float) -> float:
    """Evidence multiplies with every look, so lines above 1 are read on a scale of orders of magnitude."""
    if threshold > 1:
        return min(math.log(max(value, 1.0)) / math.log(threshold), 1.2)
    return min(max(value / threshold, 0.0), 1.2) if threshold else 0.0
