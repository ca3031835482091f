"""What the figures of an engine mean for its release. Pure; people read its sentences word for word."""

from typing import Literal

from registry.contract.engines import (
    BenchReport,
    Gate,
    GateOutcome,
    GoldenReport,
    OutputParity,
    ParityReport,
    ValidationReport,
)
from registry.contract.recipes import Precision, Tolerances

GateName = Literal["golden", "parity", "validation", "speed"]


def golden_gate(report: GoldenReport | None) -> Gate:
    if report is None:
        return Gate(
            name="golden",
            outcome=GateOutcome.UNPROVEN,
            reason="the version has no golden pairs, so nothing proves its pre- and post-processing; "
            "record pairs "
            "with the training code and name the file in the contract",
        )
    if report.passed:
        return Gate(
            name="golden", outcome=GateOutcome.PASSED, reason=f"all {report.pairs} golden pairs agree"
        )
    return Gate(
        name="golden",
        outcome=GateOutcome.FAILED,
        reason=f"a golden pair differs: {report.first_difference}",
    )


def parity_gate(report: ParityReport, limits: Tolerances) -> Gate:
    faults = [fault for output in report.outputs for fault in _faults(output, limits)]
    if report.flip_rate is not None and report.flip_rate > limits.max_flip_rate:
        faults.append(
            f"{report.flips} of {report.rows} rows change their label "
            f"({report.flip_rate:.1%} > {limits.max_flip_rate:.1%})"
        )
    if not report.batch_invariant and limits.batch_mates == "refused":
        faults.append(
            f"a row's answer moves by up to {report.batch_max_abs:.2g} with the rows that share its batch, "
            "and a node batches what waits; quantise less of it, set batch.max_rows to 1 in the contract, or "
            "accept that in the recipe (tolerances.batch_mates): 'alone' runs it row by row, 'accepted' "
            "batches it all the same"
        )
    if faults:
        worst = f"; worst rows: {', '.join(report.worst_rows)}" if report.worst_rows else ""
        return Gate(name="parity", outcome=GateOutcome.FAILED, reason="; ".join(faults) + worst)
    lowest = min((output.cosine for output in report.outputs), default=1.0)
    return Gate(
        name="parity",
        outcome=GateOutcome.PASSED,
        reason=f"{report.rows} rows agree with the source: lowest cosine {lowest:.5f}",
    )


def _faults(output: OutputParity, limits: Tolerances) -> list[str]:
    name = f"output {output.output!r}"
    if not output.finite:
        return [f"{name} holds NaN or infinity where the source is finite"]
    if output.constant:
        return [f"{name} is the same for every row, and the source's is not"]
    faults = []
    if output.cosine < limits.min_cosine:
        faults.append(f"{name} has cosine {output.cosine:.4f} with the source (limit {limits.min_cosine:g})")
    if output.sqnr_db is not None and output.sqnr_db < limits.min_sqnr_db:
        faults.append(
            f"{name} has {output.sqnr_db:.1f} dB of signal to noise (limit {limits.min_sqnr_db:g} dB)"
        )
    return faults


def validation_gate(report: ValidationReport | None, skipped: str, reason: str) -> Gate:
    """`skipped` says why it was not run; `reason` is the judgement's own sentence where it was."""
    if report is None:
        if skipped:
            return Gate(name="validation", outcome=GateOutcome.SKIPPED, reason=skipped)
        return Gate(
            name="validation",
            outcome=GateOutcome.UNPROVEN,
            reason="the recipe names no validation set; register one and name it in the recipe",
        )
    outcome = {
        "accepted": GateOutcome.PASSED,
        "refused": GateOutcome.FAILED,
        "insufficient": GateOutcome.INSUFFICIENT,
    }[report.outcome]
    return Gate(name="validation", outcome=outcome, reason=reason)


def speed_limit(precision: Precision, limits: Tolerances) -> float | None:
    """Least source p50 / engine p50. INT8 arithmetic that isn't faster has no use; FP16 and INT8 or INT4
    weights alone are smaller in any case."""
    if limits.min_speed_ratio is None and precision in (Precision.INT8_STATIC, Precision.INT8_DYNAMIC):
        return 1.0
    return limits.min_speed_ratio


def speed_gate(report: BenchReport, precision: Precision, limits: Tolerances) -> Gate:
    limit = speed_limit(precision, limits)
    measured = f"×{report.speed_ratio:.2f} the source's speed at one row"
    if limit is None:
        return Gate(
            name="speed", outcome=GateOutcome.SKIPPED, reason=f"{measured}; {precision} has no speed gate"
        )
    if report.speed_ratio < limit:
        return Gate(
            name="speed", outcome=GateOutcome.FAILED, reason=f"{measured}, and at least ×{limit:g} is wanted"
        )
    return Gate(
        name="speed", outcome=GateOutcome.PASSED, reason=f"{measured} (at least ×{limit:g} is wanted)"
    )


def refused(gates: tuple[Gate, ...]) -> str:
    """Why an engine is refused already, or an empty text."""
    return next((f"refused by {gate.name}" for gate in gates if gate.outcome is GateOutcome.FAILED), "")
