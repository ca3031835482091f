"""Simulated releases: play a scenario over many replicates and see when the judge acts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np

from registry.statistics import evidence, levels, simulate
from registry.statistics.arrays import Floats
from registry.statistics.clumping import Clumping
from registry.statistics.dispersion import Dispersion
from registry.statistics.evidence import Evidence
from registry.statistics.simulate import Traffic
from registry.statistics.trial import Trial, Unit

EXPECTED_FLIPS = 0.011
"""Validation's upper bound on flips in every scenario: with the tolerance of 2 pp the limit is 3.1 %."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """sound: traffic before, and of the release until `onset_s`; fault: from then on (None: never).

    seconds: length of the release. learn_looks: stable-only batches before it. same_engine: an A/A.
    dispersed: whether φ is used (False shows what happens without it).
    """

    sound: Traffic = field(default_factory=Traffic)
    fault: Traffic | None = None
    onset_s: float = 0.0
    seconds: float = 7200.0
    learn_looks: int = 60
    same_engine: bool = False
    unit: Unit = Unit.REQUEST
    dispersed: bool = True


@dataclass(frozen=True, slots=True)
class Played:
    """Per replicate, (R,): seconds from the onset to the first roll back, freeze and proof (∞: never).

    canary_n: canary requests from onset to the roll back (∞: never).
    """

    rolled_back_s: Floats
    frozen_s: Floats
    proven_s: Floats
    canary_n: Floats

    @property
    def rolled_back(self) -> float:
        """Part of the replicates that were rolled back."""
        return float(np.isfinite(self.rolled_back_s).mean())

    @property
    def frozen(self) -> float:
        """Part of the replicates that were frozen."""
        return float(np.isfinite(self.frozen_s).mean())


def play(scenario: Scenario, replicates: int, seed: int) -> Played:
    """Play `scenario`. With a fault it ends as soon as every replicate is rolled back."""
    rng = np.random.default_rng(seed)
    sound = scenario.sound
    trial = Trial(
        simulate.layout(sound),
        unit=scenario.unit,
        mirrored=sound.mirror > 0.0,
        same_engine=scenario.same_engine,
        flip_rates=(EXPECTED_FLIPS,),
    )
    state = evidence.begin(trial, replicates)
    for _ in range(scenario.learn_looks):
        state = evidence.look(state, simulate.before(sound, replicates, rng), trial)
    if not scenario.dispersed:
        state = _undispersed(state)
    rolled, frozen, proven, requests = (np.full(replicates, np.inf) for _ in range(4))
    seen = np.zeros(replicates)
    for t in range(math.ceil(scenario.seconds / sound.seconds)):
        faulty = scenario.fault is not None and t * sound.seconds >= scenario.onset_s
        traffic = scenario.fault if faulty and scenario.fault is not None else sound
        batch = simulate.batch(traffic, replicates, rng)
        state = evidence.look(state, batch, trial)
        since = (t + 1) * sound.seconds - scenario.onset_s
        seen += batch.canary.n.sum(axis=1) * (faulty or scenario.fault is None)
        fires = levels.rolls_back(state, trial)
        requests = np.where(fires, np.minimum(requests, seen), requests)
        rolled = np.where(fires, np.minimum(rolled, since), rolled)
        frozen = np.where(levels.freezes(state, trial), np.minimum(frozen, since), frozen)
        proven = np.where(levels.proves(state, trial), np.minimum(proven, since), proven)
        if scenario.fault is not None and bool(np.isfinite(rolled).all()):
            break
    return Played(rolled, frozen, proven, requests)


def _undispersed(state: Evidence) -> Evidence:
    def flat(known: Dispersion) -> Dispersion:
        return dataclasses.replace(known, squares=np.zeros_like(known.squares))

    known = state.clumping
    clumping = Clumping(
        flat(known.errors), flat(known.slow), flat(known.tails), tuple(map(flat, known.mixes))
    )
    return dataclasses.replace(state, clumping=clumping)
