"""What paired answers prove about an engine. Pure."""

from typing import Literal

from builder.judgement import bounds
from builder.judgement.pairing import Pairing
from registry.contract.datasets import RowForm
from registry.contract.engines import ValidationReport
from registry.contract.versions import DatasetRef

Outcome = Literal["accepted", "refused", "insufficient"]


def validation_report(
    pairing: Pairing, dataset: DatasetRef, form: RowForm, max_loss: float, left_out: int
) -> tuple[ValidationReport, str]:
    """The report, and the judgement as a sentence."""
    labelled = pairing.metric is not None
    report = ValidationReport(
        dataset=dataset,
        form=form,
        rows=pairing.rows,
        labelled=labelled,
        source_metric=pairing.source if labelled else None,
        engine_metric=pairing.engine if labelled else None,
        n01=pairing.gained,
        n10=pairing.lost,
        flips=pairing.flips,
        flip_upper=bounds.clopper_pearson_upper(pairing.flips, pairing.rows) if pairing.rows else 1.0,
        loss_upper=pairing.upper,
        outcome=_outcome(pairing, max_loss),
        metric=pairing.metric or "accuracy",
    )
    return report, _sentence(report, pairing, max_loss, left_out)


def _least_rows(pairing: Pairing, max_loss: float) -> int:
    """Fewer could not have shown a loss of `max_loss` even if every such row lost all that it can."""
    if pairing.metric in ("accuracy", "exact_match"):
        return bounds.rows_for_tango(max_loss)
    return bounds.rows_for_clopper_pearson(max_loss)


def _outcome(pairing: Pairing, max_loss: float) -> Outcome:
    """Accepted by its bound only; refused when the loss that was seen is above the limit already."""
    if pairing.rows < _least_rows(pairing, max_loss):
        return "insufficient"
    if pairing.upper <= max_loss:
        return "accepted"
    return "refused" if pairing.loss > max_loss else "insufficient"


def _sentence(report: ValidationReport, pairing: Pairing, max_loss: float, left_out: int) -> str:
    if pairing.metric is not None:
        relative = "" if report.higher_is_better else " of the source's"
        seen = f"{pairing.metric} {pairing.source:.4f} → {pairing.engine:.4f}"
        bound = f"its loss is at most {report.loss_upper:.2%}{relative} (95 %)"
    else:
        seen = f"{report.flips} answers change"
        bound = f"at most {report.flip_upper:.2%} change (95 %)"
    head = f"{seen} over {report.rows} rows: {bound}, limit {max_loss:.2%}"
    if pairing.illegal:
        head += f"; no legal answer where the source has one: {pairing.illegal}"
    if left_out:
        head += f"; left out because they were calibrated on: {left_out}"
    if report.outcome != "insufficient":
        return head
    least = _least_rows(pairing, max_loss)
    if report.rows < least:
        return f"{head}; too few rows: at least {least} are needed, so add rows to the validation set"
    return f"{head}; the rows don't decide it: add rows to the validation set"
