"""The gates of a build: accepted, refused, or too few rows to tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.statistics.validation import GateOutcome, judge_labelled, judge_unlabelled


@pytest.mark.parametrize(
    ("lost", "won", "rows", "outcome"),
    [
        (0, 0, 267, GateOutcome.INSUFFICIENT),
        (0, 0, 268, GateOutcome.ACCEPTED),
        (5, 5, 2292, GateOutcome.ACCEPTED),
        (23, 10, 2292, GateOutcome.INSUFFICIENT),
        (60, 10, 2292, GateOutcome.REFUSED),
        (1, 0, 50, GateOutcome.INSUFFICIENT),
        (40, 1, 50, GateOutcome.REFUSED),
        (0, 0, 0, GateOutcome.INSUFFICIENT),
    ],
)
def test_labelled_gate(lost: int, won: int, rows: int, outcome: GateOutcome) -> None:
    result = judge_labelled(lost, won, rows)
    assert result.outcome is outcome
    assert result.low <= result.loss <= result.high


@pytest.mark.parametrize(
    ("flips", "rows", "outcome"),
    [
        (0, 298, GateOutcome.INSUFFICIENT),
        (0, 299, GateOutcome.ACCEPTED),
        (8, 2000, GateOutcome.ACCEPTED),
        (4, 600, GateOutcome.INSUFFICIENT),
        (30, 600, GateOutcome.REFUSED),
    ],
)
def test_unlabelled_gate(flips: int, rows: int, outcome: GateOutcome) -> None:
    assert judge_unlabelled(flips, rows).outcome is outcome


def test_a_model_exactly_at_the_limit_is_accepted_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(3)
    draws = rng.multinomial(2000, [0.02, 0.01, 0.97], size=300)
    accepted = sum(judge_labelled(int(a), int(b), 2000).outcome is GateOutcome.ACCEPTED for a, b, _ in draws)
    # A point estimate would accept half of them; Binomial(300, .05) exceeds 30 with probability 2e-4.
    assert accepted <= 30


def test_the_rows_it_asks_for_are_enough() -> None:
    result = judge_labelled(23, 10, 2292)
    assert result.rows_needed is not None
    scale = result.rows_needed / 2292
    again = judge_labelled(round(23 * scale), round(10 * scale), result.rows_needed)
    assert again.outcome is GateOutcome.ACCEPTED
    assert str(result.rows_needed) in result.sentence


def test_every_row_discordant_is_still_judged() -> None:
    assert judge_labelled(3, 3, 6).outcome is GateOutcome.INSUFFICIENT
    assert judge_labelled(300, 300, 600).outcome is GateOutcome.INSUFFICIENT


@given(st.integers(0, 40), st.integers(0, 40), st.integers(81, 3000))
def test_one_more_lost_row_never_helps(lost: int, won: int, rows: int) -> None:
    order = [GateOutcome.ACCEPTED, GateOutcome.INSUFFICIENT, GateOutcome.REFUSED]
    before = order.index(judge_labelled(lost, won, rows).outcome)
    after = order.index(judge_labelled(lost + 1, won, rows).outcome)
    assert after >= before
