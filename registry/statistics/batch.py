"""What the statistics eat: the counters that came in between two looks, for both arms.

Axes, in this order, of every array:

    R  replicates: 1 in production, hundreds in a simulation
    S  strata: a node within one route generation; nodes at the same share may be pooled into one
    then what is counted: error kinds E, batch-size buckets B, tails T, labels K

Everything is a *delta* within one generation, counted by the assigned arm. The same stratum index
means the same node and generation in both arms; likelihoods are computed per stratum and multiplied,
so a different mix of nodes or shares never looks like a difference between the arms.
The names along the last axes are fixed for a whole release by `Layout`.
A batch whose canary is empty is a look at the stable arm alone: it teaches the baseline (stable's
rates and its dispersion) and moves no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from registry.statistics.arrays import Floats, Stateful


class MixKind(StrEnum):
    """What a mix is made of: only `CLASS` mixes are judged label by label."""

    CLASS = "class"
    BINS = "bins"


@dataclass(frozen=True, slots=True)
class Mix(Stateful):
    """A distribution over fixed bins: the predicted classes, or an observable's histogram.

    name: the observable, as in the version's contract; labels: K names of its bins.
    """

    name: str
    kind: MixKind
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout(Stateful):
    """The names along the axes of every batch of one release.

    error_kinds: E kinds of failed outcomes (a time-out and a shed request are kinds of their own).
    size_buckets: B batch-size buckets within which engine time is compared.
    tails: T rare regions of observables, cut at stable's *earlier* quantiles: "score low" (below P10),
        "value low"/"value high" (outside P5-P95), "length high" …
    mixes: distributions, class mixes and histograms.
    """

    error_kinds: tuple[str, ...] = ("error",)
    size_buckets: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    mixes: tuple[Mix, ...] = ()

    @property
    def class_mixes(self) -> tuple[Mix, ...]:
        """The mixes that are judged label by label, in order."""
        return tuple(self.mixes[place] for place in self.class_places)

    @property
    def class_places(self) -> tuple[int, ...]:
        """The positions of the class mixes among `mixes`."""
        return tuple(i for i, mix in enumerate(self.mixes) if mix.kind is MixKind.CLASS)


@dataclass(frozen=True, slots=True)
class ArmCounts(Stateful):
    """One arm's counters in one batch. Axes as in the module's text.

    n: (R, S) requests assigned. errors: (R, S, E) failed outcomes by kind.
    timed, slow: (R, S, B) engine runs timed, and those above stable's earlier P99 of that bucket.
    observed, tails: (R, S, T) answers that carried the observable, and those inside the tail.
    mixes: one (R, S, K) per `Layout.mixes`.
    """

    n: Floats
    errors: Floats
    timed: Floats
    slow: Floats
    observed: Floats
    tails: Floats
    mixes: tuple[Floats, ...]


@dataclass(frozen=True, slots=True)
class MixPairs(Stateful):
    """How one class mix moved within pairs that both arms answered.

    compared, flips: (R, S) pairs compared, and those with different labels.
    inflow, outflow: (R, S, K) flips into label k (stable said another, canary k) and out of it.
    """

    compared: Floats
    flips: Floats
    inflow: Floats
    outflow: Floats


@dataclass(frozen=True, slots=True)
class PairCounts(Stateful):
    """The same input answered by both arms (the mirrored sample of the canary's requests).

    n: (R, S) pairs with both outcomes known. canary_failed, stable_failed: (R, S) pairs in which only
    that arm failed.
    compared: (R, S, T) pairs in which both arms gave the observable; canary_tail, stable_tail:
    (R, S, T) those in which only that arm's answer lay inside the tail.
    mixes: one `MixPairs` per `Layout.class_mixes`.
    """

    n: Floats
    canary_failed: Floats
    stable_failed: Floats
    compared: Floats
    canary_tail: Floats
    stable_tail: Floats
    mixes: tuple[MixPairs, ...]


@dataclass(frozen=True, slots=True)
class SplitCounts(Stateful):
    """What the split check compares: routing units against the requested share.

    share: (R, S) canary's requested share of the stratum's traffic, 0…1.
    canary, total: (R, S) requests (unit `request`) or new distinct keys (unit `key`) on nodes that
    applied the generation.
    """

    share: Floats
    canary: Floats
    total: Floats


@dataclass(frozen=True, slots=True)
class Batch(Stateful):
    """The counters between two looks. seconds: the span they cover, by the registry's clock.

    Raises:
        ValueError: when an array does not have the shape that `layout` and `n` imply, or counts more
            events than there were requests.
    """

    layout: Layout
    seconds: float
    canary: ArmCounts
    stable: ArmCounts
    pairs: PairCounts
    split: SplitCounts

    def __post_init__(self) -> None:
        base = self.canary.n.shape
        if len(base) != 2:
            raise ValueError(f"canary.n has shape {base}; counters carry (replicates, strata)")
        for name, arm in (("canary", self.canary), ("stable", self.stable)):
            _check_arm(name, arm, self.layout, base)
        _check_pairs(self.pairs, self.layout, base)
        for name in ("share", "canary", "total"):
            _shape(f"split.{name}", getattr(self.split, name), base)
        _within("split.canary", self.split.canary, self.split.total)
        _within("split.share", self.split.share, np.ones(base))

    @property
    def replicates(self) -> int:
        """R."""
        return int(self.canary.n.shape[0])


def _shape(name: str, array: Floats, expected: tuple[int, ...]) -> None:
    if array.shape != expected:
        raise ValueError(f"{name} has shape {array.shape} where {expected} is wanted")


def _within(name: str, part: Floats, whole: Floats) -> None:
    # A negative delta means that two incarnations were subtracted from one another.
    if not bool(np.all((part >= 0) & (part <= whole))):
        raise ValueError(f"{name} is negative or exceeds its total: take deltas within one incarnation")


def _check_arm(name: str, arm: ArmCounts, layout: Layout, base: tuple[int, ...]) -> None:
    _shape(f"{name}.n", arm.n, base)
    _shape(f"{name}.errors", arm.errors, (*base, len(layout.error_kinds)))
    for field in ("timed", "slow"):
        _shape(f"{name}.{field}", getattr(arm, field), (*base, len(layout.size_buckets)))
    for field in ("observed", "tails"):
        _shape(f"{name}.{field}", getattr(arm, field), (*base, len(layout.tails)))
    if len(arm.mixes) != len(layout.mixes):
        raise ValueError(f"{name} has {len(arm.mixes)} mixes where the layout names {len(layout.mixes)}")
    for mix, counts in zip(layout.mixes, arm.mixes, strict=True):
        _shape(f"{name}.{mix.name}", counts, (*base, len(mix.labels)))
        _within(f"{name}.{mix.name}", counts, np.full_like(counts, np.inf))
    _within(f"{name}.errors", arm.errors.sum(axis=-1), arm.n)
    _within(f"{name}.slow", arm.slow, arm.timed)
    _within(f"{name}.tails", arm.tails, arm.observed)


def _check_pairs(pairs: PairCounts, layout: Layout, base: tuple[int, ...]) -> None:
    for field in ("n", "canary_failed", "stable_failed"):
        _shape(f"pairs.{field}", getattr(pairs, field), base)
    _within("pairs failed", pairs.canary_failed + pairs.stable_failed, pairs.n)
    for field in ("compared", "canary_tail", "stable_tail"):
        _shape(f"pairs.{field}", getattr(pairs, field), (*base, len(layout.tails)))
    _within("pairs tails", pairs.canary_tail + pairs.stable_tail, pairs.compared)
    if len(pairs.mixes) != len(layout.class_mixes):
        raise ValueError(f"pairs carry {len(pairs.mixes)} class mixes, the layout {len(layout.class_mixes)}")
    for mix, counts in zip(layout.class_mixes, pairs.mixes, strict=True):
        _shape(f"pairs.{mix.name}.compared", counts.compared, base)
        _shape(f"pairs.{mix.name}.flips", counts.flips, base)
        _within(f"pairs.{mix.name}.flips", counts.flips, counts.compared)
        for field in ("inflow", "outflow"):
            flow = getattr(counts, field)
            _shape(f"pairs.{mix.name}.{field}", flow, (*base, len(mix.labels)))
            _within(f"pairs.{mix.name}.{field}", flow.sum(axis=-1), counts.flips)


def empty_arm(layout: Layout, replicates: int = 1, strata: int = 1) -> ArmCounts:
    """An arm that counted nothing, in the shapes of `layout`."""
    base = (replicates, strata)
    return ArmCounts(
        n=np.zeros(base),
        errors=np.zeros((*base, len(layout.error_kinds))),
        timed=np.zeros((*base, len(layout.size_buckets))),
        slow=np.zeros((*base, len(layout.size_buckets))),
        observed=np.zeros((*base, len(layout.tails))),
        tails=np.zeros((*base, len(layout.tails))),
        mixes=tuple(np.zeros((*base, len(mix.labels))) for mix in layout.mixes),
    )


def empty_pairs(layout: Layout, replicates: int = 1, strata: int = 1) -> PairCounts:
    """No pairs, in the shapes of `layout`."""
    base = (replicates, strata)
    zero = np.zeros(base)
    tails = np.zeros((*base, len(layout.tails)))
    mixes = tuple(
        MixPairs(zero, zero, np.zeros((*base, len(mix.labels))), np.zeros((*base, len(mix.labels))))
        for mix in layout.class_mixes
    )
    return PairCounts(zero, zero, zero, tails, tails, tails, mixes)


def empty_split(replicates: int = 1, strata: int = 1) -> SplitCounts:
    """A split check with nothing to compare."""
    zero = np.zeros((replicates, strata))
    return SplitCounts(zero, zero, zero)


def stable_only(layout: Layout, seconds: float, stable: ArmCounts) -> Batch:
    """A look at the stable arm before a release: it teaches the baseline and moves no evidence."""
    replicates, strata = stable.n.shape
    return Batch(
        layout=layout,
        seconds=seconds,
        canary=empty_arm(layout, replicates, strata),
        stable=stable,
        pairs=empty_pairs(layout, replicates, strata),
        split=empty_split(replicates, strata),
    )
