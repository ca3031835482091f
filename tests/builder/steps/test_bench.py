"""Side by side in one process; no time is asserted, only what a report must hold."""

from pathlib import Path

import numpy as np
import pytest

from builder.steps import bench
from builder.steps.bench import BenchParameters, check_provider
from builder.steps.step import Refused, perform
from tests.builder import made


def test_a_report_holds_every_batch_size_for_both(tmp_path: Path, model: Path, sample: Path) -> None:
    parameters = BenchParameters(
        target="ort.cpu",
        signature=made.SIGNATURE,
        pipeline=made.CONTRACT.pipeline,
        max_rows=8,
        least=3,
        most=5,
        budget_s=0.1,
    )
    inputs = {"source": model, "engine": model, "sample": sample}
    report = perform(bench.STEP, parameters, inputs, tmp_path / "out").report
    assert [point.rows for point in report.points] == [1, 2, 4, 8]
    assert [point.rows for point in report.source_points] == [1, 2, 4, 8]
    assert report.speed_ratio > 0
    assert report.provider == "CPUExecutionProvider"
    assert report.size_bytes == report.source_size_bytes == model.stat().st_size
    assert report.memory_bytes >= report.size_bytes
    assert set(report.load_ms) == {"read", "deserialise", "copy", "warm_up"}
    assert report.pre_ms is not None
    assert report.post_ms is not None


def test_what_the_machine_does_to_some_runs_does_not_change_the_ratio() -> None:
    """Half of the pairs meet a machine that is ten times slower, and in one pair only the engine does."""
    pairs = np.array([(0.02, 0.01)] * 4 + [(0.2, 0.1)] * 4 + [(0.02, 0.4)])
    assert bench.speed_ratio(pairs) == pytest.approx(2)


def test_an_engine_that_can_not_be_loaded_is_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    parameters = BenchParameters(
        target="ort.cpu", signature=made.SIGNATURE, pipeline=made.CONTRACT.pipeline, max_rows=1
    )
    (tmp_path / "engine.onnx").write_bytes(b"no engine")
    inputs = {"source": model, "engine": tmp_path / "engine.onnx", "sample": sample}
    with pytest.raises(Refused, match="can't be measured"):
        perform(bench.STEP, parameters, inputs, tmp_path / "out")


def test_another_provider_than_the_one_asked_for_is_refused() -> None:
    check_provider("ort.cpu.avx512_vnni", "CPUExecutionProvider")
    with pytest.raises(
        Refused, match=r"ort\.cuda\.sm_90 was asked for, and CPUExecutionProvider did the work"
    ):
        check_provider("ort.cuda.sm_90", "CPUExecutionProvider")
