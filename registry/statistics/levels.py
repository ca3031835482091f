"""Evidence as levels: what the decision rule compares with its thresholds, for all replicates at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import memory
from registry.statistics.arrays import Bools, Floats
from registry.statistics.evidence import Evidence
from registry.statistics.tolerances import (
    ADVANCE_AT,
    FREEZE_SAME_ENGINE_AT,
    FREEZE_SPLIT_AT,
    ROLL_BACK_AT,
)
from registry.statistics.trial import Family, Test, Trial


@dataclass(frozen=True, slots=True)
class Part:
    """One test of a family: the names of its items, and (R, I) log evidence of each."""

    test: Test
    items: tuple[str, ...]
    log_level: Floats
    weight: float


def parts(evidence: Evidence, trial: Trial, family: Family) -> tuple[Part, ...]:
    """The tests of `family` that decide in this trial."""
    layout = trial.layout
    found: list[Part] = []
    for test, weight in trial.weights(family).items():
        items, level = _items(evidence, test, layout.error_kinds, layout.tails, trial)
        found.append(Part(test, items, level, weight))
    return tuple(found)


def family_log(evidence: Evidence, trial: Trial, family: Family) -> Floats:
    """(R,) log of the family's e-process: the weighted mean of its tests, each the mean of its items."""
    stacked = [
        memory.log_mean(part.log_level) + np.log(part.weight) for part in parts(evidence, trial, family)
    ]
    return np.asarray(np.logaddexp.reduce(stacked, axis=0))


def leading(evidence: Evidence, trial: Trial, family: Family) -> tuple[Test, str]:
    """The test and item that carry most of the family's evidence (replicate 0)."""
    best: tuple[float, Test, str] | None = None
    for part in parts(evidence, trial, family):
        level = part.log_level[0] + np.log(part.weight / len(part.items))
        at = int(np.argmax(level))
        if best is None or level[at] > best[0]:
            best = (float(level[at]), part.test, part.items[at])
    assert best is not None, f"family {family} has no test in this trial"
    return best[1], best[2]


def rolls_back(evidence: Evidence, trial: Trial) -> Bools:
    """(R,) whether some family stands at its threshold."""
    levels = [family_log(evidence, trial, family) for family in trial.families]
    return np.asarray(np.maximum.reduce(levels) >= np.log(ROLL_BACK_AT))


def split_log(evidence: Evidence) -> Floats:
    """(R,) log evidence that the split is not the requested one."""
    return np.asarray(memory.log_level(evidence.split.memory)[:, 0])


def differs_log(evidence: Evidence) -> Floats:
    """(R,) log evidence, over all mixes, that the arms' distributions differ. −∞ without mixes."""
    if not evidence.mixes:
        return np.full(evidence.split.total.shape, -np.inf)
    return memory.log_mean(
        np.stack([memory.log_level(test.memory)[:, 0] for test in evidence.mixes], axis=-1)
    )


def freezes(evidence: Evidence, trial: Trial) -> Bools:
    """(R,) whether the split, or in an A/A the whole distribution, stands at its threshold."""
    fired = split_log(evidence) >= np.log(FREEZE_SPLIT_AT)
    if trial.same_engine:
        fired = fired | (differs_log(evidence) >= np.log(FREEZE_SAME_ENGINE_AT))
    return np.asarray(fired)


def proves(evidence: Evidence, trial: Trial) -> Bools:
    """(R,) whether every gate of the present step is proven."""
    levels = [proof for _, proof in proof_logs(evidence, trial)]
    return np.asarray(np.minimum.reduce(levels) >= np.log(ADVANCE_AT))


def proof_logs(evidence: Evidence, trial: Trial) -> tuple[tuple[str, Floats], ...]:
    """Name and (R,) log evidence of every gate that must be proven before a step advances."""
    step, layout = evidence.proofs, trial.layout
    found: list[tuple[str, Floats]] = [("errors", step.errors.log_e[:, 0])]
    if layout.size_buckets:
        found.append(("slow", step.slow.log_e[:, 0]))
    found += [(tail, step.tails.log_e[:, i]) for i, tail in enumerate(layout.tails)]
    if trial.mirrored:
        found += [(f"{mix.name} flips", step.flips.log_e[:, i]) for i, mix in enumerate(layout.class_mixes)]
    return tuple(found)


def _items(
    evidence: Evidence, test: Test, kinds: tuple[str, ...], tails: tuple[str, ...], trial: Trial
) -> tuple[tuple[str, ...], Floats]:
    """Names and levels of a test's items."""
    match test:
        case Test.RATE:
            return ("errors",), memory.log_level(evidence.errors.memory)
        case Test.KINDS:
            return kinds, memory.log_level(evidence.kinds.memory)
        case Test.SLOW:
            return ("slow",), memory.log_level(evidence.slow.memory)
        case Test.TAILS:
            return tails, memory.log_level(evidence.tails.memory)
        case Test.PAIRED_FAILED:
            return ("errors",), memory.log_level(evidence.paired_failed.memory)
        case Test.PAIRED_TAILS:
            return tails, memory.log_level(evidence.paired_tails.memory)
        case Test.FLIPS | Test.SHARES | Test.FLOW:
            return _class_items(evidence, test, trial)


def _class_items(evidence: Evidence, test: Test, trial: Trial) -> tuple[tuple[str, ...], Floats]:
    names: list[str] = []
    levels: list[Floats] = []
    for mix, state in zip(trial.layout.class_mixes, evidence.classes, strict=True):
        if test is Test.FLIPS:
            names.append(mix.name)
            levels.append(memory.log_level(state.flips.memory))
            continue
        if test is Test.SHARES:
            halves = (("up", state.up.memory), ("down", state.down.memory))
        else:
            halves = (("up", state.inflow.memory), ("down", state.outflow.memory))
        for side, half in halves:
            names += [f"{mix.name}={label} {side}" for label in mix.labels]
            levels.append(memory.log_level(half))
    return tuple(names), np.concatenate(levels, axis=-1)
