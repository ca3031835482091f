"""All evidence of one release: a state that each look's batch moves forward.

`look(evidence, batch, trial)` is a pure function; folding it over the stored batches replays every verdict.
Evidence against the canary is kept for the whole release; proofs for it begin afresh at each step.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from registry.statistics import clumping, distribution, paired, proofs, rates, split
from registry.statistics.arrays import Floats, Stateful
from registry.statistics.batch import Batch
from registry.statistics.clumping import Clumping
from registry.statistics.distribution import DistributionTest
from registry.statistics.paired import PairedTest
from registry.statistics.proofs import Proofs, StableRates
from registry.statistics.rates import RateTest
from registry.statistics.split import SplitTest
from registry.statistics.tolerances import Margin
from registry.statistics.trial import Trial, Unit
from registry.statistics.twosample import Side

KEY_COUNT_ERROR = 0.05
"""Relative error allowed to the odds of distinct keys: they are counted by sketches (HyperLogLog)."""


@dataclass(frozen=True, slots=True)
class ClassEvidence(Stateful):
    """One class mix: shares up and down (b); flips and net flow into and out of each label (g)."""

    up: RateTest
    down: RateTest
    flips: PairedTest
    inflow: PairedTest
    outflow: PairedTest


@dataclass(frozen=True, slots=True)
class Evidence(Stateful):
    """Everything between two looks; JSON-able by `to_state`."""

    clumping: Clumping
    errors: RateTest
    kinds: RateTest
    slow: RateTest
    tails: RateTest
    paired_failed: PairedTest
    paired_tails: PairedTest
    classes: tuple[ClassEvidence, ...]
    mixes: tuple[DistributionTest, ...]
    split: SplitTest
    proofs: Proofs


def begin(trial: Trial, replicates: int = 1) -> Evidence:
    """Nothing seen. Feed stable-only batches first: they teach the baseline."""
    layout = trial.layout
    buckets, tails = len(layout.size_buckets), len(layout.tails)
    # A single kind is the total.
    kinds = len(layout.error_kinds) if len(layout.error_kinds) > 1 else 0
    return Evidence(
        clumping=clumping.begin(layout, replicates),
        errors=rates.begin(replicates, 1),
        kinds=rates.begin(replicates, kinds),
        slow=rates.begin(replicates, buckets, pooled=True),
        tails=rates.begin(replicates, tails),
        paired_failed=paired.begin(replicates, 1),
        paired_tails=paired.begin(replicates, tails),
        classes=tuple(_begin_classes(replicates, len(mix.labels)) for mix in layout.class_mixes),
        mixes=tuple(distribution.begin(replicates, len(mix.labels)) for mix in layout.mixes),
        split=split.begin(replicates),
        proofs=proofs.begin(trial, replicates),
    )


def begin_step(evidence: Evidence, trial: Trial) -> Evidence:
    """A new step: what was proven is forgotten, what speaks against the canary is not."""
    return dataclasses.replace(evidence, proofs=proofs.begin(trial, evidence.split.total.shape[0]))


def look(evidence: Evidence, batch: Batch, trial: Trial) -> Evidence:
    """The evidence after `batch`.

    Until it is known how stable varies, evidence against the canary counts as on very clumped traffic, and
    nothing is proven for it.

    Raises:
        ValueError: when the batch was counted on another layout than the trial's.
    """
    if batch.layout != trial.layout:
        raise ValueError(
            "this batch was counted on other edges than the trial's: end the batch where the edges change "
            "and begin a new trial"
        )
    known = evidence.clumping
    return Evidence(
        clumping=clumping.learn(known, batch),
        errors=_errors(evidence.errors, batch, trial, known, by_kind=False),
        kinds=_errors(evidence.kinds, batch, trial, known, by_kind=True),
        slow=rates.look(
            evidence.slow,
            (batch.canary.timed, batch.canary.slow),
            (batch.stable.timed, batch.stable.slow),
            trial.tolerances.slow,
            Side.ABOVE,
            known.cautious(known.slow),
            known.slow.begun,
        ),
        tails=rates.look(
            evidence.tails,
            (batch.canary.observed, batch.canary.tails),
            (batch.stable.observed, batch.stable.tails),
            trial.tolerances.tails,
            Side.ABOVE,
            known.cautious(known.tails),
            known.tails.begun,
        ),
        paired_failed=_pairs_failed(evidence, batch, trial),
        paired_tails=_pairs_tails(evidence, batch, trial),
        classes=_classes(evidence, batch, trial),
        mixes=tuple(
            distribution.look(test, canary, stable, batch.seconds, clumps.phi, clumps.learned)
            for test, canary, stable, clumps in zip(
                evidence.mixes, batch.canary.mixes, batch.stable.mixes, known.mixes, strict=True
            )
        ),
        split=split.look(evidence.split, batch.split, KEY_COUNT_ERROR if trial.unit is Unit.KEY else 0.0),
        proofs=proofs.look(
            evidence.proofs,
            batch,
            trial,
            known,
            StableRates(evidence.errors.stable_rate, evidence.slow.stable_rate, evidence.tails.stable_rate),
        ),
    )


def _begin_classes(replicates: int, labels: int) -> ClassEvidence:
    return ClassEvidence(
        up=rates.begin(replicates, labels),
        down=rates.begin(replicates, labels),
        flips=paired.begin(replicates, 1),
        inflow=paired.begin(replicates, labels),
        outflow=paired.begin(replicates, labels),
    )


def _errors(test: RateTest, batch: Batch, trial: Trial, known: Clumping, by_kind: bool) -> RateTest:
    def counts(n: Floats, errors: Floats) -> tuple[Floats, Floats]:
        x = errors if by_kind else errors.sum(axis=-1, keepdims=True)
        return np.broadcast_to(n[..., None], x.shape), x

    if by_kind and len(trial.layout.error_kinds) == 1:
        return test
    return rates.look(
        test,
        counts(batch.canary.n, batch.canary.errors),
        counts(batch.stable.n, batch.stable.errors),
        trial.tolerances.errors,
        Side.ABOVE,
        known.cautious(known.errors),
        known.errors.begun,
    )


def _pairs_failed(evidence: Evidence, batch: Batch, trial: Trial) -> PairedTest:
    pairs, known = batch.pairs, evidence.clumping
    return paired.look_net(
        evidence.paired_failed,
        pairs.n.sum(axis=1)[:, None],
        pairs.canary_failed.sum(axis=1)[:, None],
        pairs.stable_failed.sum(axis=1)[:, None],
        trial.tolerances.errors.slack(evidence.errors.stable_rate),
        known.cautious(known.errors),
        known.errors.begun,
    )


def _pairs_tails(evidence: Evidence, batch: Batch, trial: Trial) -> PairedTest:
    pairs, known = batch.pairs, evidence.clumping
    return paired.look_net(
        evidence.paired_tails,
        pairs.compared.sum(axis=1),
        pairs.canary_tail.sum(axis=1),
        pairs.stable_tail.sum(axis=1),
        trial.tolerances.tails.slack(evidence.tails.stable_rate),
        known.cautious(known.tails),
        known.tails.begun,
    )


def _classes(evidence: Evidence, batch: Batch, trial: Trial) -> tuple[ClassEvidence, ...]:
    return tuple(
        _one_class(evidence.classes[at], batch, trial, at, place, evidence.clumping)
        for at, place in enumerate(trial.layout.class_places)
    )


def _one_class(
    test: ClassEvidence, batch: Batch, trial: Trial, at: int, place: int, known: Clumping
) -> ClassEvidence:
    phi, active = known.cautious(known.mixes[place]), known.mixes[place].begun
    margin = Margin(1.0, trial.tolerances.class_share)

    def of(mix: Floats) -> tuple[Floats, Floats]:
        return np.broadcast_to(mix.sum(axis=-1, keepdims=True), mix.shape), mix

    canary, stable = of(batch.canary.mixes[place]), of(batch.stable.mixes[place])
    pairs = batch.pairs.mixes[at]
    compared, flips = pairs.compared.sum(axis=1)[:, None], pairs.flips.sum(axis=1)[:, None]
    inflow, outflow = pairs.inflow.sum(axis=1), pairs.outflow.sum(axis=1)
    each = np.broadcast_to(compared, inflow.shape)
    tolerated = np.full(inflow.shape, margin.add)
    limit = np.full(flips.shape, trial.flip_limit(at))
    return ClassEvidence(
        up=rates.look(test.up, canary, stable, margin, Side.ABOVE, phi, active),
        down=rates.look(test.down, canary, stable, margin, Side.BELOW, phi, active),
        flips=paired.look_limit(test.flips, compared, flips, limit, phi, active),
        inflow=paired.look_net(test.inflow, each, inflow, outflow, tolerated, phi, active),
        outflow=paired.look_net(test.outflow, each, outflow, inflow, tolerated, phi, active),
    )
