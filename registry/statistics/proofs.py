"""What the present step has proven in the canary's favour, gate by gate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics import advance
from registry.statistics.advance import Proof, Scale
from registry.statistics.arrays import Floats, Stateful, floats
from registry.statistics.batch import Batch
from registry.statistics.clumping import Clumping
from registry.statistics.dispersion import Dispersion
from registry.statistics.trial import Trial, Unit


@dataclass(frozen=True, slots=True)
class Proofs(Stateful):
    """errors, slow: (R, 1). tails: one item per tail. flips: one item per class mix.

    canary_n: (R,) requests in this step.
    """

    errors: Proof
    slow: Proof
    tails: Proof
    flips: Proof
    canary_n: Floats


@dataclass(frozen=True, slots=True)
class StableRates:
    """Stable's rates as known before a batch: errors (R, 1), slow (R, B), tails (R, T)."""

    errors: Floats
    slow: Floats
    tails: Floats


def begin(trial: Trial, replicates: int) -> Proofs:
    """Nothing proven."""
    return Proofs(
        errors=advance.begin(replicates, 1),
        slow=advance.begin(replicates, 1),
        tails=advance.begin(replicates, len(trial.layout.tails)),
        flips=advance.begin(replicates, len(trial.layout.class_mixes)),
        canary_n=np.zeros(replicates),
    )


def look(step: Proofs, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proofs:
    """One batch. Sticky users are judged by pairs, except for slow runs."""
    sticky = trial.unit is Unit.KEY
    return Proofs(
        errors=(_errors_paired if sticky else _errors)(step.errors, batch, trial, known, stable),
        slow=_slow(step.slow, batch, trial, known, stable),
        tails=(_tails_paired if sticky else _tails)(step.tails, batch, trial, known, stable),
        flips=_flips(step.flips, batch, trial, known),
        canary_n=step.canary_n + batch.canary.n.sum(axis=1),
    )


def _errors(proof: Proof, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proof:
    n = batch.canary.n.sum(axis=1)[:, None]
    failed = batch.canary.errors.sum(axis=(1, 2))[:, None]
    bound = trial.tolerances.prove.limit(stable.errors)
    return advance.look(proof, n, failed, bound, stable.errors, _scale(known.errors))


def _errors_paired(proof: Proof, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proof:
    n, alone, stable_alone = (
        counts.sum(axis=1)[:, None]
        for counts in (batch.pairs.n, batch.pairs.canary_failed, batch.pairs.stable_failed)
    )
    tolerated = trial.tolerances.prove.slack(stable.errors)
    return advance.look_net(proof, n, alone, stable_alone, tolerated, _scale(known.errors))


def _slow(proof: Proof, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proof:
    """Buckets are pooled at the bound that the batch's own mix of batch sizes implies."""
    timed = batch.canary.timed.sum(axis=1)
    n = timed.sum(axis=-1, keepdims=True)
    weight = timed / np.maximum(n, 1.0)
    bound = (weight * trial.tolerances.prove.limit(stable.slow)).sum(axis=-1, keepdims=True)
    expected = (weight * stable.slow).sum(axis=-1, keepdims=True)
    slow = batch.canary.slow.sum(axis=(1, 2))[:, None]
    return advance.look(proof, n, slow, bound, expected, _scale(known.slow))


def _tails(proof: Proof, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proof:
    n, tails = batch.canary.observed.sum(axis=1), batch.canary.tails.sum(axis=1)
    bound = trial.tolerances.tails.limit(stable.tails)
    return advance.look(proof, n, tails, bound, stable.tails, _scale(known.tails))


def _tails_paired(proof: Proof, batch: Batch, trial: Trial, known: Clumping, stable: StableRates) -> Proof:
    pairs = batch.pairs
    return advance.look_net(
        proof,
        pairs.compared.sum(axis=1),
        pairs.canary_tail.sum(axis=1),
        pairs.stable_tail.sum(axis=1),
        trial.tolerances.tails.slack(stable.tails),
        _scale(known.tails),
    )


def _flips(proof: Proof, batch: Batch, trial: Trial, known: Clumping) -> Proof:
    places = trial.layout.class_places
    if not places:
        return proof
    n = np.stack([mix.compared.sum(axis=1) for mix in batch.pairs.mixes], axis=1)
    flips = np.stack([mix.flips.sum(axis=1) for mix in batch.pairs.mixes], axis=1)
    limit = np.broadcast_to(floats([trial.flip_limit(at) for at in range(len(places))]), n.shape)
    expected = np.broadcast_to(floats(trial.flip_rates), n.shape)
    scale = Scale(
        phi=np.maximum.reduce([known.mixes[place].phi for place in places]),
        active=np.logical_and.reduce([known.mixes[place].learned for place in places]),
    )
    return advance.look(proof, n, flips, limit, expected, scale)


def _scale(known: Dispersion) -> Scale:
    return Scale(known.phi, known.learned)
