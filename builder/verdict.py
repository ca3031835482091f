"""What paired answers prove about an engine. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from builder import bounds
from builder.judging import Judgement
from registry.contract.datasets import RowForm
from registry.contract.engines import ValidationReport
from registry.contract.versions import DatasetRef

# A number has changed when it moved by more than this part of the source's spread (P5 to P95) over all rows.
VALUE_TOLERANCE = 0.01

Outcome = Literal["accepted", "refused", "insufficient"]


@dataclass(frozen=True, slots=True)
class Pairing:
    """Counts over paired rows. `gained`: right in the engine only; `lost`: right in the source only."""

    rows: int
    labelled: bool
    source_right: int
    engine_right: int
    gained: int
    lost: int
    flips: int


def pair_rows(sources: Sequence[Judgement], engines: Sequence[Judgement]) -> Pairing:
    """Labelled only when every row has a true label and the answers are labels."""
    labelled = bool(sources) and all(one.truth is not None and one.label is not None for one in sources)
    spreads = _spreads(sources)
    source_right = engine_right = gained = lost = flips = 0
    for source, engine in zip(sources, engines, strict=True):
        before, after = source.label == source.truth, engine.label == engine.truth
        source_right += before
        engine_right += after
        gained += after and not before
        lost += before and not after
        flips += _changed(source, engine, spreads)
    if not labelled:
        source_right = engine_right = gained = lost = 0
    return Pairing(len(sources), labelled, source_right, engine_right, gained, lost, flips)


def _spreads(sources: Sequence[Judgement]) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """P95 − P5 of each number of the source's answers; None where answers hold no equal count of numbers."""
    lengths = {len(one.values) for one in sources if one.values}
    if len(lengths) != 1:
        return None
    low, high = np.percentile([one.values for one in sources if one.values], (5, 95), axis=0)
    return np.asarray(high - low, dtype=np.float64)


def _changed(
    source: Judgement, engine: Judgement, spreads: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> bool:
    if source.label is not None or engine.label is not None:
        return source.label != engine.label
    if len(source.values) != len(engine.values):
        return True
    if not source.values:
        return False
    left, right = np.asarray(source.values), np.asarray(engine.values)
    scale = spreads if spreads is not None else np.full(left.shape, float(np.abs(left).max()))
    return bool((np.abs(left - right) > VALUE_TOLERANCE * scale + 1e-9).any())


def validation_report(
    pairing: Pairing, dataset: DatasetRef, form: RowForm, max_loss: float, left_out: int
) -> tuple[ValidationReport, str]:
    """The report, and the judgement as a sentence."""
    if pairing.rows:
        flip_upper = bounds.clopper_pearson_upper(pairing.flips, pairing.rows)
        loss_upper = (
            bounds.tango_upper(pairing.gained, pairing.lost, pairing.rows) if pairing.labelled else flip_upper
        )
    else:
        flip_upper = loss_upper = 1.0
    outcome = _outcome(pairing, loss_upper, max_loss)
    rows = max(pairing.rows, 1)
    report = ValidationReport(
        dataset=dataset,
        form=form,
        rows=pairing.rows,
        labelled=pairing.labelled,
        source_metric=pairing.source_right / rows if pairing.labelled else None,
        engine_metric=pairing.engine_right / rows if pairing.labelled else None,
        n01=pairing.gained,
        n10=pairing.lost,
        flips=pairing.flips,
        flip_upper=flip_upper,
        loss_upper=loss_upper,
        outcome=outcome,
    )
    return report, _sentence(report, max_loss, left_out)


def _least_rows(labelled: bool, max_loss: float) -> int:
    return bounds.rows_for_tango(max_loss) if labelled else bounds.rows_for_clopper_pearson(max_loss)


def _outcome(pairing: Pairing, upper: float, max_loss: float) -> Outcome:
    """Accepted by its bound only; refused when the loss that was seen is above the limit already."""
    if pairing.rows < _least_rows(pairing.labelled, max_loss):
        return "insufficient"
    if upper <= max_loss:
        return "accepted"
    seen = (pairing.lost - pairing.gained if pairing.labelled else pairing.flips) / pairing.rows
    return "refused" if seen > max_loss else "insufficient"


def _sentence(report: ValidationReport, max_loss: float, left_out: int) -> str:
    if report.source_metric is not None and report.engine_metric is not None:
        seen = f"accuracy {report.source_metric:.4f} → {report.engine_metric:.4f}"
        bound = f"its loss is at most {report.loss_upper:.2%} (95 %)"
    else:
        seen = f"{report.flips} answers change"
        bound = f"at most {report.flip_upper:.2%} change (95 %)"
    head = f"{seen} over {report.rows} rows: {bound}, limit {max_loss:.2%}"
    if left_out:
        head += f"; left out because they were calibrated on: {left_out}"
    if report.outcome != "insufficient":
        return head
    least = _least_rows(report.labelled, max_loss)
    if report.rows < least:
        return f"{head}; too few rows: at least {least} are needed, so add rows to the validation set"
    return f"{head}; the rows don't decide it: add rows to the validation set"
