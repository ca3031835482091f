"""The terms of one trial: what is compared, how strictly, and which tests may decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from registry.statistics.arrays import Stateful
from registry.statistics.batch import Layout
from registry.statistics.tolerances import Tolerances


class Unit(StrEnum):
    """The deployment's routing unit. With `KEY` an arm keeps its users, so unpaired rates differ by them."""

    REQUEST = "request"
    KEY = "key"


class Family(StrEnum):
    """What may roll a release back; each spends α = 0.0025."""

    ERRORS = "errors"
    SLOW = "slow"
    SCORES = "scores"
    CLASSES = "classes"


class Test(StrEnum):
    """One kind of e-process within a family."""

    RATE = "rate"
    KINDS = "kinds"
    SLOW = "slow"
    TAILS = "tails"
    SHARES = "shares"
    PAIRED_FAILED = "paired_failed"
    PAIRED_TAILS = "paired_tails"
    FLIPS = "flips"
    FLOW = "flow"


_WEIGHTS: dict[Family, dict[Test, float]] = {
    Family.ERRORS: {Test.RATE: 6.0, Test.KINDS: 1.0, Test.PAIRED_FAILED: 3.0},
    Family.SLOW: {Test.SLOW: 1.0},
    Family.SCORES: {Test.TAILS: 5.0, Test.PAIRED_TAILS: 5.0},
    Family.CLASSES: {Test.SHARES: 2.0, Test.FLIPS: 6.0, Test.FLOW: 2.0},
}
"""How a family's α is divided among its tests: a weighted mean of e-processes is an e-process."""

_PAIRED = frozenset({Test.PAIRED_FAILED, Test.PAIRED_TAILS, Test.FLIPS, Test.FLOW})


@dataclass(frozen=True, slots=True)
class Trial(Stateful):
    """Fixed when the release starts; stored with it.

    mirrored: a sample of the canary's requests is answered by stable too. same_engine: both arms run one
    engine (an A/A). flip_rates: per class mix, the flip rate to be expected (validation's upper bound).

    Raises:
        ValueError: when flip_rates don't match the layout's class mixes, or sticky users are not mirrored
            (then nothing could decide).
    """

    layout: Layout
    tolerances: Tolerances = field(default_factory=Tolerances)
    unit: Unit = Unit.REQUEST
    mirrored: bool = True
    same_engine: bool = False
    flip_rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.flip_rates) != len(self.layout.class_mixes):
            raise ValueError(
                f"{len(self.flip_rates)} expected flip rates for {len(self.layout.class_mixes)} class mixes: "
                "give one per class observable"
            )
        if self.unit is Unit.KEY and not self.mirrored:
            raise ValueError("with routing unit key only paired answers can decide: switch mirroring on")

    def weights(self, family: Family) -> dict[Test, float]:
        """Weights, summing to one, of the tests of `family` that decide in this trial."""
        usable = {test: w for test, w in _WEIGHTS[family].items() if self._usable(test)}
        total = sum(usable.values())
        return {test: w / total for test, w in usable.items()}

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that something in this trial can decide."""
        return tuple(family for family in Family if self.weights(family))

    def flip_limit(self, mix: int) -> float:
        """Tolerated flip rate of class mix number `mix`."""
        return min(0.999, self.flip_rates[mix] + self.tolerances.flips)

    def _usable(self, test: Test) -> bool:
        layout = self.layout
        if test in _PAIRED and not self.mirrored:
            return False
        # Slow runs stay with test (b) for sticky users too: engine time is compared within a batch size.
        if test not in _PAIRED and test is not Test.SLOW and self.unit is Unit.KEY:
            return False
        if test is Test.SLOW:
            return bool(layout.size_buckets)
        if test is Test.KINDS:
            return len(layout.error_kinds) > 1
        if test in (Test.TAILS, Test.PAIRED_TAILS):
            return bool(layout.tails)
        if test in (Test.SHARES, Test.FLIPS, Test.FLOW):
            return bool(layout.class_mixes)
        return True
