"""The gates of a build: is an engine as good as its source, on rows judged by both?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from registry.statistics.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    tango_lower,
    tango_upper,
)

_MOST_ROWS = 1 << 40


class GateOutcome(StrEnum):
    """`INSUFFICIENT` is neither: the rows are too few to tell."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    INSUFFICIENT = "insufficient"


@dataclass(frozen=True, slots=True)
class GateResult:
    """loss: estimate; low, high: its one-sided limits; limit: what is allowed (all fractions).

    rows_needed: rows with which the same rates would be accepted; None where they would not be.
    """

    outcome: GateOutcome
    loss: float
    low: float
    high: float
    limit: float
    rows: int
    rows_needed: int | None
    sentence: str


def judge_labelled(
    lost: int, won: int, rows: int, limit: float = 0.01, confidence: float = 0.95
) -> GateResult:
    """Accept when the upper Tango limit of the loss is at most `limit`.

    lost: rows right in the source and wrong in the engine; won: the reverse. Refused when the loss itself is
    beyond the limit, unless so few rows were judged that even a perfect engine could not have passed.
    """
    high, low = tango_upper(lost, won, rows, confidence), tango_lower(lost, won, rows, confidence)
    loss = (lost - won) / rows if rows else 0.0

    def passes(n: int) -> bool:
        worse = round(lost * n / rows)
        return tango_upper(worse, min(round(won * n / rows), n - worse), n, confidence) <= limit

    hopeless = tango_upper(0, 0, rows, confidence) > limit
    needed = _needed(passes, rows) if rows and loss < limit else None
    return _result("the loss", loss, low, high, limit, rows, hopeless, needed)


def judge_unlabelled(flips: int, rows: int, limit: float = 0.01, confidence: float = 0.95) -> GateResult:
    """Without labels: accept when the exact upper limit of the flip rate is at most `limit`."""
    high, low = clopper_pearson_upper(flips, rows, confidence), clopper_pearson_lower(flips, rows, confidence)
    rate = flips / rows if rows else 0.0

    def passes(n: int) -> bool:
        return clopper_pearson_upper(round(flips * n / rows), n, confidence) <= limit

    hopeless = clopper_pearson_upper(0, rows, confidence) > limit
    needed = _needed(passes, rows) if rows and rate < limit else None
    return _result("the flip rate", rate, low, high, limit, rows, hopeless, needed)


def _needed(passes: Callable[[int], bool], rows: int) -> int | None:
    """The fewest rows, to about 1 %, with which the same rates would pass; None where none do."""
    high = max(rows, 1)
    while not passes(high):
        high *= 2
        if high > _MOST_ROWS:
            return None
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _result(
    what: str,
    loss: float,
    low: float,
    high: float,
    limit: float,
    rows: int,
    hopeless: bool,
    needed: int | None,
) -> GateResult:
    figures = f"{what} is {loss:.2%} on {rows} rows, its upper bound {high:.2%}, its limit {limit:.2%}"
    if high <= limit:
        outcome, sentence = GateOutcome.ACCEPTED, f"accepted: {figures}"
    elif low > limit or (loss > limit and not hopeless):
        outcome, sentence = GateOutcome.REFUSED, f"refused: {figures}"
    else:
        more = f"about {needed} rows would do" if needed else "more rows may settle it"
        outcome, sentence = GateOutcome.INSUFFICIENT, f"too few rows to tell: {figures}; {more}"
    return GateResult(outcome, loss, low, high, limit, rows, needed, sentence)
