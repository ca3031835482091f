"""Dispersion of everything that is counted, learned from the stable arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import dispersion
from registry.statistics.arrays import Floats, Stateful
from registry.statistics.batch import Batch, Layout
from registry.statistics.dispersion import Dispersion
from registry.statistics.tolerances import PLAUSIBLE_PHI


@dataclass(frozen=True, slots=True)
class Clumping(Stateful):
    """Dispersion by what is counted; one per mix."""

    errors: Dispersion
    slow: Dispersion
    tails: Dispersion
    mixes: tuple[Dispersion, ...]

    @property
    def plausible(self) -> Floats:
        """(R,) how clumped this traffic may be, from all that is counted of it.

        The same bursts clump everything, so what no event has told yet of errors the labels tell.
        """
        every = (self.errors, self.slow, self.tails, *self.mixes)
        squares = np.sum([each.squares for each in every], axis=0)
        compared = np.sum([each.compared for each in every], axis=0)
        return dispersion.drawn_to(PLAUSIBLE_PHI, squares, compared)

    def cautious(self, count: Dispersion) -> Floats:
        """(R,) what evidence against the canary by one of these counts is divided by."""
        return count.cautious(self.plausible)


def begin(layout: Layout, replicates: int) -> Clumping:
    """Nothing seen."""
    return Clumping(
        errors=dispersion.begin(replicates, 1),
        slow=dispersion.begin(replicates, len(layout.size_buckets)),
        tails=dispersion.begin(replicates, len(layout.tails)),
        mixes=tuple(dispersion.begin(replicates, len(mix.labels)) for mix in layout.mixes),
    )


def learn(known: Clumping, batch: Batch) -> Clumping:
    """Dispersion is learned before the release; during it only until it is known."""
    alone = batch.canary.n.sum(axis=1) == 0.0
    stable = batch.stable

    def update(state: Dispersion, n: Floats, x: Floats) -> Dispersion:
        return dispersion.learn(state, n.sum(axis=1), x.sum(axis=1), alone | ~state.known)

    return Clumping(
        errors=update(known.errors, stable.n[..., None], stable.errors.sum(axis=-1, keepdims=True)),
        slow=update(known.slow, stable.timed, stable.slow),
        tails=update(known.tails, stable.observed, stable.tails),
        mixes=tuple(
            update(state, np.broadcast_to(mix.sum(axis=-1, keepdims=True), mix.shape), mix)
            for state, mix in zip(known.mixes, stable.mixes, strict=True)
        ),
    )
