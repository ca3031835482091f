"""When an engine is refused, and in which words."""

from builder.judgement import gates
from registry.contract.engines import (
    BenchPoint,
    BenchReport,
    Gate,
    GateOutcome,
    GoldenReport,
    OutputParity,
    ParityReport,
)
from registry.contract.recipes import Precision, Tolerances


def parity(flips: int = 0, **changes: object) -> ParityReport:
    output = OutputParity(
        output="scores", cosine=0.999, sqnr_db=30, max_abs=0.1, max_rel=0.1, finite=True, constant=False
    ).model_copy(update=changes)
    return ParityReport(
        rows=100,
        shapes=((1, 4),),
        outputs=(output,),
        flips=flips,
        flip_rate=flips / 100,
        batch_invariant=True,
        batch_max_abs=0,
        worst_rows=("row-7",),
    )


def bench(ratio: float) -> BenchReport:
    point = BenchPoint(rows=1, p50_ms=1, p99_ms=2, rows_per_s=1000)
    return BenchReport(
        provider="CPUExecutionProvider",
        threads=1,
        points=(point,),
        source_points=(point,),
        speed_ratio=ratio,
        size_bytes=1,
        source_size_bytes=1,
        size_ratio=1,
        load_ms={},
        memory_bytes=1,
    )


def test_parity_passes_and_each_limit_refuses_by_itself() -> None:
    limits = Tolerances()
    assert gates.parity_gate(parity(), limits).outcome is GateOutcome.PASSED
    for change, told in (
        (parity(cosine=0.97), "cosine 0.9700"),
        (parity(sqnr_db=9.0), "9.0 dB"),
        (parity(finite=False), "NaN or infinity"),
        (parity(constant=True), "same for every row"),
        (parity(flips=6), "6 of 100 rows change their label"),
    ):
        gate = gates.parity_gate(change, limits)
        assert gate.outcome is GateOutcome.FAILED
        assert told in gate.reason
        assert "row-7" in gate.reason


def test_an_engine_that_depends_on_batch_mates_is_refused_unless_the_recipe_accepts_it() -> None:
    mixed = parity().model_copy(update={"batch_invariant": False, "batch_max_abs": 0.25})
    gate = gates.parity_gate(mixed, Tolerances())
    assert gate.outcome is GateOutcome.FAILED
    assert "moves by up to 0.25 with the rows that share its batch" in gate.reason
    assert "tolerances.batch_mates" in gate.reason
    for accepting in (Tolerances(batch_mates="alone"), Tolerances(batch_mates="accepted")):
        assert gates.parity_gate(mixed, accepting).outcome is GateOutcome.PASSED


def test_a_lower_precision_must_be_faster_and_fp32_need_not() -> None:
    limits = Tolerances()
    assert gates.speed_gate(bench(0.3), Precision.INT8_DYNAMIC, limits).outcome is GateOutcome.FAILED
    assert "×0.30" in gates.speed_gate(bench(0.3), Precision.INT8_DYNAMIC, limits).reason
    assert gates.speed_gate(bench(1.5), Precision.INT8_STATIC, limits).outcome is GateOutcome.PASSED
    assert gates.speed_gate(bench(0.9), Precision.FP32, limits).outcome is GateOutcome.SKIPPED
    strict = Tolerances(min_speed_ratio=2)
    assert gates.speed_gate(bench(1.5), Precision.FP32, strict).outcome is GateOutcome.FAILED


def test_without_golden_pairs_nothing_is_proven() -> None:
    assert gates.golden_gate(None).outcome is GateOutcome.UNPROVEN
    wrong = GoldenReport(pairs=3, passed=False, first_difference="pair 2, input 'x'")
    assert gates.golden_gate(wrong).outcome is GateOutcome.FAILED
    assert "pair 2" in gates.golden_gate(wrong).reason


def test_validation_that_did_not_run_is_never_passed() -> None:
    assert gates.validation_gate(None, "", "").outcome is GateOutcome.UNPROVEN
    assert gates.validation_gate(None, "not run", "").outcome is GateOutcome.SKIPPED


def test_only_a_failed_gate_refuses() -> None:
    passed = Gate(name="parity", outcome=GateOutcome.PASSED, reason="")
    assert gates.refused((passed,)) == ""
    failed = Gate(name="speed", outcome=GateOutcome.FAILED, reason="")
    assert gates.refused((passed, failed)) == "refused by speed"
