"""Every test of a trial beside its line: value, threshold, sample size, and how long it still needs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, assert_never

from registry.contract.verdicts import GateProgress
from registry.statistics import levels, sentences
from registry.statistics.advance import Proof
from registry.statistics.evidence import Evidence
from registry.statistics.tolerances import (
    ADVANCE_AT,
    FREEZE_SAME_ENGINE_AT,
    FREEZE_SPLIT_AT,
    ROLL_BACK_AT,
)
from registry.statistics.trial import Family, Trial, Unit

FamilyName = Literal["errors", "slow", "scores", "classes"]

MOST = 1e12
"""Evidence is shown up to this: beyond it a number says nothing more, and JSON has no infinity."""


NOT_YET = "not judged yet, how stable varies is still being learned"


@dataclass(frozen=True, slots=True)
class Pace:
    """Traffic at present: canary's requests and pairs per second."""

    canary_per_s: float
    pairs_per_s: float


def all_gates(evidence: Evidence, trial: Trial, pace: Pace) -> tuple[GateProgress, ...]:
    """Gates of replicate 0: split first, then what may roll back, then what is proven, then what is shown."""
    return (
        _split(evidence),
        *(_family(evidence, trial, family) for family in trial.families),
        *_proofs(evidence, trial, pace),
        *_distribution(evidence, trial),
        *_unpaired(evidence, trial),
    )


def shown(log_level: float) -> float:
    """Evidence as a plain number."""
    return math.exp(min(log_level, math.log(MOST)))


def _split(evidence: Evidence) -> GateProgress:
    test, value = evidence.split, shown(float(levels.split_log(evidence)[0]))
    total, canary, expected = (float(v[0]) for v in (test.total, test.canary, test.expected))
    fired = value >= FREEZE_SPLIT_AT
    return GateProgress(
        name="split",
        family="split",
        purpose="freeze",
        value=value,
        threshold=FREEZE_SPLIT_AT,
        n=int(total),
        outcome="fired" if fired else "passed" if total else "not_enough_data",
        sentence=f"the canary got {sentences.count(canary)} of {sentences.count(total)} where about "
        f"{sentences.count(expected)} were asked for",
    )


def _family(evidence: Evidence, trial: Trial, family: Family) -> GateProgress:
    value = shown(float(levels.family_log(evidence, trial, family)[0]))
    test, item = levels.leading(evidence, trial, family)
    rate_n, pairs = sentences.family_size(evidence, family)
    n = pairs if trial.unit is Unit.KEY and family is not Family.SLOW else rate_n
    name = test.value if item == family.value else f"{test.value} {item}"
    fired, sentence = value >= ROLL_BACK_AT, sentences.describe(evidence, trial, test, item)
    judged = fired or _learned(evidence, trial, family)
    return GateProgress(
        name=f"{family.value}: {name}",
        family=family.value,
        purpose="roll_back",
        value=value,
        threshold=ROLL_BACK_AT,
        n=n,
        outcome="fired" if fired else "passed" if n and judged else "not_enough_data",
        sentence=sentence if judged else f"{NOT_YET}: {sentence}",
    )


def _learned(evidence: Evidence, trial: Trial, family: Family) -> bool:
    """Whether it is known how much of what decides in the family varies on stable."""
    known = evidence.clumping
    match family:
        case Family.ERRORS:
            needed = [known.errors]
        case Family.SLOW:
            needed = [known.slow]
        case Family.SCORES:
            needed = [known.tails]
        case Family.CLASSES:
            needed = [known.mixes[place] for place in trial.layout.class_places]
        case other:
            assert_never(other)
    return all(bool(each.learned[0]) for each in needed)


def _proofs(evidence: Evidence, trial: Trial, pace: Pace) -> list[GateProgress]:
    step, layout = evidence.proofs, trial.layout
    per_s = pace.pairs_per_s if trial.unit is Unit.KEY else pace.canary_per_s
    found = [_proof("errors", "errors", step.errors, 0, per_s)]
    if layout.size_buckets:
        found.append(_proof("slow", "slow", step.slow, 0, pace.canary_per_s))
    found += [_proof(tail, "scores", step.tails, i, per_s) for i, tail in enumerate(layout.tails)]
    if trial.mirrored:
        found += [
            _proof(f"{mix.name} flips", "classes", step.flips, i, pace.pairs_per_s)
            for i, mix in enumerate(layout.class_mixes)
        ]
    return found


def _proof(name: str, family: FamilyName, proof: Proof, item: int, per_s: float) -> GateProgress:
    log_e, n, x, bound = (float(v[0, item]) for v in (proof.log_e, proof.n, proof.x, proof.bound))
    passed = log_e >= math.log(ADVANCE_AT)
    rate = float(proof.growth[0, item]) * per_s
    wait = 0.0 if passed else (math.log(ADVANCE_AT) - log_e) / rate if rate > 0.0 else None
    target = f"below {sentences.percent(bound)} is to be proven" if n else "nothing to compare yet"
    return GateProgress(
        name=f"{name} proven",
        family=family,
        purpose="advance",
        value=shown(log_e),
        threshold=ADVANCE_AT,
        n=int(n),
        outcome="passed" if passed else "waiting" if n else "not_enough_data",
        sentence=f"{sentences.count(x)} of {sentences.count(n)} in this step, {target}",
        wait_s=wait,
    )


def _distribution(evidence: Evidence, trial: Trial) -> list[GateProgress]:
    """Zero-tolerance comparison: it freezes an A/A, and is only shown between different engines."""
    if not evidence.mixes:
        return []
    value = shown(float(levels.differs_log(evidence)[0]))
    beyond = value >= FREEZE_SAME_ENGINE_AT
    n = int(evidence.errors.canary_n[0, 0])
    same = trial.same_engine
    judged = beyond or all(bool(known.learned[0]) for known in evidence.clumping.mixes)
    reading = (
        "the arms run one engine, so they must not differ" if same else "engines differ a little by nature"
    )
    return [
        GateProgress(
            name="whole distribution",
            family="distribution",
            purpose="freeze" if same else "shown",
            value=value,
            threshold=FREEZE_SAME_ENGINE_AT,
            n=n,
            outcome=("fired" if same else "differs")
            if beyond
            else ("passed" if n and judged else "not_enough_data"),
            sentence=f"distributions {'differ' if beyond else 'do not differ measurably'}; {reading}"
            if judged
            else NOT_YET,
        )
    ]


def _unpaired(evidence: Evidence, trial: Trial) -> list[GateProgress]:
    """For sticky users: unpaired evidence is shown and can't decide, because an arm keeps its users."""
    if trial.unit is not Unit.KEY:
        return []
    free = dataclasses.replace(trial, unit=Unit.REQUEST, mirrored=False)
    found = []
    for family in free.families:
        if family is Family.SLOW:
            continue
        gate = _family(evidence, free, family)
        outcome = "differs" if gate.outcome == "fired" else gate.outcome
        sentence = f"{gate.sentence}; differs by who is in it, so it decides nothing"
        found.append(gate.model_copy(update={"purpose": "shown", "outcome": outcome, "sentence": sentence}))
    return found
