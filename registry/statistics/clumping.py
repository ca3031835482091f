"""Dispersion of everything that is counted, learned from the stable arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import dispersion
from registry.statistics.arrays import Floats, Stateful
from registry.statistics.batch import Batch, Layout
from registry.statistics.dispersion import Dispersion


@dataclass(frozen=True, slots=True)
class Clumping(Stateful):
    """Dispersion by what is counted; one per mix."""

    errors: Dispersion
    slow: Dispersion
    tails: Dispersion
    mixes: tuple[Dispersion, ...]


def begin(layout: Layout, replicates: int) -> Clumping:
    """Nothing seen."""
    return Clumping(
        errors=dispersion.begin(replicates, 1),
        slow=dispersion.begin(replicates, len(layout.size_buckets)),
        tails=dispersion.begin(replicates, len(layout.tails)),
        mixes=tuple(dispersion.begin(replicates, len(mix.labels)) for mix in layout.mixes),
    )


def learn(known: Clumping, batch: Batch) -> Clumping:
    """Dispersion is learned before the release; during it only while there is too little."""
    alone = batch.canary.n.sum(axis=1) == 0.0
    stable = batch.stable

    def update(state: Dispersion, n: Floats, x: Floats) -> Dispersion:
        return dispersion.learn(state, n.sum(axis=1), x.sum(axis=1), alone | ~state.learned)

    return Clumping(
        errors=update(known.errors, stable.n[..., None], stable.errors.sum(axis=-1, keepdims=True)),
        slow=update(known.slow, stable.timed, stable.slow),
        tails=update(known.tails, stable.observed, stable.tails),
        mixes=tuple(
            update(state, np.broadcast_to(mix.sum(axis=-1, keepdims=True), mix.shape), mix)
            for state, mix in zip(known.mixes, stable.mixes, strict=True)
        ),
    )
