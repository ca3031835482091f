"""Pairing and the judgement, on counts alone."""

import pytest

from builder.judging import Judgement
from builder.verdict import Pairing, pair_rows, validation_report
from registry.contract.versions import DatasetRef

REF = DatasetRef(name="rows", version=1)


def labelled(truth: str | None, label: str) -> Judgement:
    return Judgement(key="k", fingerprint="f", truth=truth, label=label)


def number(value: float) -> Judgement:
    return Judgement(key="k", fingerprint="f", truth=None, values=(value,))


def test_pairs_are_counted_by_who_is_right() -> None:
    sources = [labelled("a", "a"), labelled("a", "b"), labelled("a", "b"), labelled("a", "a")]
    engines = [labelled("a", "b"), labelled("a", "a"), labelled("a", "c"), labelled("a", "a")]
    assert pair_rows(sources, engines) == Pairing(4, True, 2, 2, gained=1, lost=1, flips=3)


def test_one_missing_label_makes_the_set_unlabelled() -> None:
    sources = [labelled("a", "a"), labelled(None, "a")]
    found = pair_rows(sources, sources)
    assert (found.labelled, found.source_right, found.flips) == (False, 0, 0)


def test_a_number_flips_when_it_moves_by_more_than_a_hundredth_of_the_spread() -> None:
    sources = [number(float(at)) for at in range(101)]
    near = [number(at + 0.5) for at in range(101)]
    far = [number(at + 1.0) for at in range(101)]
    assert pair_rows(sources, near).flips == 0
    assert pair_rows(sources, far).flips == 101


@pytest.mark.parametrize(
    ("gained", "lost", "rows", "outcome"),
    [
        (0, 0, 267, "insufficient"),
        (0, 0, 268, "accepted"),
        (3, 3, 1000, "accepted"),
        (3, 8, 1000, "insufficient"),
        (0, 10, 1000, "insufficient"),
        (0, 11, 1000, "refused"),
        (30, 0, 1000, "accepted"),
    ],
)
def test_the_bound_accepts_and_the_estimate_refuses(gained: int, lost: int, rows: int, outcome: str) -> None:
    pairing = Pairing(rows, True, rows // 2, rows // 2 + gained - lost, gained, lost, gained + lost)
    report, _ = validation_report(pairing, REF, "raw", 0.01, 0)
    assert report.outcome == outcome


def test_no_rows_at_all_are_insufficient() -> None:
    report, says = validation_report(Pairing(0, False, 0, 0, 0, 0, 0), REF, "raw", 0.01, 40)
    assert (report.outcome, report.loss_upper) == ("insufficient", 1.0)
    assert "calibrated on: 40" in says
