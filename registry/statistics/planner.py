"""How long things take: requests that a fault needs to be found, and that a step needs to be proven."""

from __future__ import annotations

import math
from dataclasses import dataclass

from registry.statistics.tolerances import ADVANCE_AT, GRID, ROLL_BACK_AT, Margin


@dataclass(frozen=True, slots=True)
class StepPlan:
    """requests: canary requests that a step needs; seconds at the traffic given; advice where it is long."""

    requests: int
    seconds: float
    advice: str | None


LONG_STEP_S = 1800.0


def requests_to_roll_back(fault: float, limit: float, alpha: float = 1.0 / ROLL_BACK_AT) -> int:
    """Canary requests until a fault at rate `fault` is rolled back when `limit` is still tolerated.

    n ≈ [ln(1/α) + ln(2·grid)] / [p1·ln(p1/p0) − (p1 − p0)]: the grid's 7 alternatives and the first look's
    weight of one half are the price of not knowing the fault in advance.

    Raises:
        ValueError: when the fault is not beyond the limit: it is tolerated and never found.
    """
    if not 0.0 < limit < fault <= 1.0:
        raise ValueError(f"a rate of {fault:.3%} is within the limit of {limit:.3%}: nothing would be found")
    return round((math.log(1.0 / alpha) + math.log(2.0 * len(GRID))) / _divergence(fault, limit))


def requests_to_prove(stable_rate: float, margin: Margin, level: float = ADVANCE_AT) -> int:
    """Canary requests until a canary as good as stable is proven to be below the margin's limit.

    ln(level) / [p·ln(p/p0) − (p − p0)]; without any event −ln(level)/ln(1 − p0).
    """
    bound = float(margin.limit(stable_rate))
    if stable_rate <= 0.0:
        return round(math.log(level) / -math.log1p(-bound))
    return round(math.log(level) / _divergence(stable_rate, bound))


def step(stable_error: float, stable_slow: float, share: float, rate: float, margin: Margin) -> StepPlan:
    """What a step at `share` (0…1) of `rate` requests/s needs for errors and slow runs to be proven.

    Raises:
        ValueError: when there is no traffic to learn from.
    """
    if share <= 0.0 or rate <= 0.0:
        raise ValueError(
            f"a share of {share:.2%} of {rate:g} requests/s brings nothing to judge: raise the share, "
            "use shadow, or advance by command"
        )
    requests = max(requests_to_prove(stable_error, margin), requests_to_prove(stable_slow, margin))
    seconds = requests / (rate * share)
    advice = None
    if seconds > LONG_STEP_S:
        advice = (
            f"this step needs about {seconds / 60:.0f} min at {rate * share:.2g} canary requests/s: "
            "raise the share or use shadow"
        )
    return StepPlan(requests, seconds, advice)


def _divergence(p1: float, p0: float) -> float:
    return p1 * math.log(p1 / p0) - (p1 - p0)
