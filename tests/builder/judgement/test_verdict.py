"""The judgement, on counts alone."""

import pytest

from builder.judgement import bounds
from builder.judgement.pairing import Pairing
from builder.judgement.verdict import validation_report
from registry.contract.versions import DatasetRef

REF = DatasetRef(name="rows", version=1)


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
    pairing = Pairing(
        rows,
        "accuracy",
        0.5,
        0.5 + (gained - lost) / rows,
        gained,
        lost,
        flips=gained + lost,
        loss=(lost - gained) / rows,
        upper=bounds.tango_upper(gained, lost, rows),
    )
    report, _ = validation_report(pairing, REF, "raw", 0.01, 0)
    assert report.outcome == outcome


def test_no_rows_at_all_are_insufficient() -> None:
    report, says = validation_report(Pairing(0, None, 0, 0, 0, 0, 0, 0, 1.0), REF, "raw", 0.01, 40)
    assert (report.outcome, report.loss_upper) == ("insufficient", 1.0)
    assert "calibrated on: 40" in says


@pytest.mark.parametrize(
    ("rows", "loss", "upper", "outcome"),
    [
        (298, 0.0, 0.0, "insufficient"),
        (299, 0.0, 0.0099, "accepted"),
        (299, 0.0, 0.0101, "insufficient"),
        (299, 0.0101, 0.03, "refused"),
    ],
)
def test_other_metrics_want_as_many_rows_as_a_rare_loss_needs_to_be_seen(
    rows: int, loss: float, upper: float, outcome: str
) -> None:
    pairing = Pairing(rows, "mae", 2.0, 2.0, 0, 0, flips=0, loss=loss, upper=upper)
    report, says = validation_report(pairing, REF, "raw", 0.01, 0)
    assert report.outcome == outcome
    assert (report.metric, report.higher_is_better) == ("mae", False)
    assert "mae 2.0000 → 2.0000" in says and "of the source's" in says
