"""How much worse a candidate may be, and how sure the judge must be. The defaults are the product's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from registry.statistics.arrays import Floats, Stateful, floats


@dataclass(frozen=True, slots=True)
class Margin(Stateful):
    """Canary's rate may reach max(ratio · stable's, stable's + add). add is a fraction (0.001 = 0.1 pp)."""

    ratio: float
    add: float

    def __post_init__(self) -> None:
        if not (self.ratio >= 1.0 and 0.0 <= self.add < 1.0):
            raise ValueError(
                f"margin {self.ratio}×, +{self.add}: the ratio is at least 1 and the addition a fraction "
                "from 0 to below 1 (0.001 is 0.1 percentage points)"
            )

    def limit(self, rate: Floats | float) -> Floats:
        """The highest tolerated rate beside each stable rate, at most 1."""
        return np.minimum(1.0, np.maximum(self.ratio * floats(rate), floats(rate) + self.add))

    def slack(self, rate: Floats | float) -> Floats:
        """The tolerated net rate beside each stable rate: the limit less the rate itself."""
        return np.maximum((self.ratio - 1.0) * floats(rate), self.add)


@dataclass(frozen=True, slots=True)
class Tolerances(Stateful):
    """All limits of a release. Rates are fractions; sources: the deployment's policy.

    errors, slow, tails: margins of the tests that roll back. class_share: ± tolerated change of a label's
    share. flips: tolerated flip rate above validation's upper bound.
    prove: margin below which errors and slow must be *proven* before a step advances.
    """

    errors: Margin = Margin(1.25, 0.001)
    slow: Margin = Margin(1.25, 0.0025)
    tails: Margin = Margin(1.25, 0.05)
    class_share: float = 0.02
    flips: float = 0.02
    prove: Margin = Margin(2.0, 0.005)


ROLL_BACK_AT = 400.0
"""1/α of one family: α = 0.0025, four families, 1 % per release (Ville's inequality)."""

FREEZE_SPLIT_AT = 400.0
"""1/α of the split check."""

FREEZE_SAME_ENGINE_AT = 100.0
"""1/α of the whole-distribution test between arms of one engine: freezing is cheap, so 1 % is spent on it.
With the split check an A/A freezes in at most 1.25 % of releases."""

ADVANCE_AT = 20.0
"""1/α of each proof of non-inferiority within a step (95 %)."""

GRID = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0)
"""Alternatives bet on: the odds at the tolerance's edge times each of these."""

LEARNING_BATCHES = 5
"""More stable batches than this are needed before anything is proven beside stable."""

KNOWN_BATCHES = 60
"""From so many stable batches on, dispersion is what they say."""

PLAUSIBLE_PHI = 10.0
"""What dispersion is drawn towards until it is known: a little more than that of bursts of five identical
requests on average (2·5 − 1). Only evidence that such bursts don't explain can roll back so early."""

PLAUSIBLE_WEIGHT = 6.0
"""How many comparisons of stable batches the plausible dispersion is worth. Of 300 simulated clean releases
before which six batches or none were seen, at most one was rolled back (none learned during the release and
φ taken as it came: 13 to 35 %); a pre-processing fault is seen after 16 s instead of 8."""
