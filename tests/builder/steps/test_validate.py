"""Paired validation on real engines: what counts, what doesn't, and what is never judged."""

from pathlib import Path

import pytest

from builder.steps import judge, validate
from builder.steps.judge import JudgeParameters
from builder.steps.step import Refused, perform
from builder.steps.validate import ValidateParameters, ValidateResult
from registry.contract.datasets import RowForm
from registry.contract.versions import DatasetRef
from tests.builder import made

COUNT = 320


def validated(
    tmp_path: Path,
    source: Path,
    engine: Path,
    folder: Path,
    *,
    form: RowForm = "raw",
    calibrated: Path | None = None,
    max_loss: float = 0.02,
) -> ValidateResult:
    perform(
        judge.STEP,
        JudgeParameters(target="ort.cpu", contract=made.CONTRACT, batchable=True, threads=1),
        {"model": source, "rows": folder},
        tmp_path / "judge",
    )
    inputs = {"engine": engine, "rows": folder, "judgements": tmp_path / "judge/judgements.jsonl"}
    if calibrated:
        inputs["calibrated"] = calibrated
    parameters = ValidateParameters(
        target="ort.cpu",
        contract=made.CONTRACT,
        dataset=DatasetRef(name="rows", version=1),
        form=form,
        max_loss=max_loss,
        batchable=True,
        threads=1,
    )
    return perform(validate.STEP, parameters, inputs, tmp_path / "validate")


@pytest.fixture
def rows() -> list[made.Array]:
    return made.images(COUNT)


@pytest.fixture
def labelled(tmp_path: Path, model: Path, rows: list[made.Array]) -> Path:
    """Every tenth label is wrong, so that the source is right nine times of ten."""
    truths = made.answers(model, rows)
    truths = [
        made.LABELS[made.LABELS.index(one) - 1] if at % 10 == 0 else one for at, one in enumerate(truths)
    ]
    return made.raw_set(tmp_path / "rows", [made.raw_image(row) for row in rows], truths)


def test_an_equal_engine_is_accepted_with_both_accuracies(
    tmp_path: Path, model: Path, labelled: Path
) -> None:
    report = validated(tmp_path, model, model, labelled).report
    assert report.outcome == "accepted"
    assert (report.labelled, report.rows, report.flips, report.n01, report.n10) == (True, COUNT, 0, 0, 0)
    assert report.source_metric == report.engine_metric == pytest.approx(0.9)


def test_a_worse_engine_is_refused(tmp_path: Path, model: Path, labelled: Path) -> None:
    worse = made.conv_model(tmp_path / "worse.onnx", more={"dense": made.weights()["dense"][::-1].copy()})
    found = validated(tmp_path, model, worse, labelled)
    assert found.report.outcome == "refused"
    assert found.report.n10 - found.report.n01 == round(
        ((found.report.source_metric or 0) - (found.report.engine_metric or 0)) * COUNT
    )
    assert "accuracy 0.9000" in found.says


def test_without_labels_flips_are_bounded(tmp_path: Path, model: Path, rows: list[made.Array]) -> None:
    folder = made.raw_set(tmp_path / "rows", [made.raw_image(row) for row in rows], [None] * COUNT)
    report = validated(tmp_path, model, model, folder).report
    assert (report.labelled, report.source_metric, report.outcome) == (False, None, "accepted")
    assert report.loss_upper == report.flip_upper


def test_training_side_tensors_go_past_the_pipeline(
    tmp_path: Path, model: Path, rows: list[made.Array]
) -> None:
    folder = made.tensor_set(tmp_path / "rows", rows, made.answers(model, rows))
    report = validated(tmp_path, model, model, folder, form="tensors").report
    assert (report.form, report.source_metric, report.rows) == ("tensors", 1.0, COUNT)


def test_rows_that_were_calibrated_on_do_not_count(
    tmp_path: Path, model: Path, rows: list[made.Array], labelled: Path
) -> None:
    from builder.data.samples import fingerprint

    calibrated = tmp_path / "calibrated.txt"
    # As pre-processing makes them of the raw rows: through JSON and back to float32 is exact.
    calibrated.write_text("\n".join(fingerprint({"image": row}) for row in rows[:100]))
    found = validated(tmp_path, model, model, labelled, calibrated=calibrated)
    assert (found.left_out, found.report.rows) == (100, COUNT - 100)
    assert "calibrated on: 100" in found.says


def test_a_set_that_was_calibrated_on_entirely_proves_nothing(
    tmp_path: Path, model: Path, rows: list[made.Array], labelled: Path
) -> None:
    from builder.data.samples import fingerprint

    calibrated = tmp_path / "calibrated.txt"
    calibrated.write_text("\n".join(fingerprint({"image": row}) for row in rows))
    report = validated(tmp_path, model, model, labelled, calibrated=calibrated).report
    assert (report.rows, report.outcome) == (0, "insufficient")


def test_too_few_rows_are_never_accepted(tmp_path: Path, model: Path, rows: list[made.Array]) -> None:
    few = rows[:100]
    folder = made.raw_set(tmp_path / "rows", [made.raw_image(row) for row in few], made.answers(model, few))
    found = validated(tmp_path, model, model, folder, max_loss=0.01)
    assert found.report.outcome == "insufficient"
    assert "at least 268 are needed" in found.says


def test_references_hold_every_row_of_every_observable(tmp_path: Path, model: Path, labelled: Path) -> None:
    found = {one.observable: one for one in validated(tmp_path, model, model, labelled).references}
    assert set(found["label"].labels) <= set(made.LABELS)
    assert len(found["label"].counts) == len(found["label"].labels) + 1
    assert sum(found["label"].counts) == sum(found["score"].counts) == COUNT
    assert found["label"].counts[-1] == 0
    assert len(found["score"].counts) == 64


def test_answers_that_are_not_legal_count_as_wrong(tmp_path: Path, model: Path, labelled: Path) -> None:
    import numpy as np

    ruined = made.conv_model(tmp_path / "nan.onnx", more={"dense_bias": np.full(4, np.inf, np.float32)})
    report = validated(tmp_path, model, ruined, labelled).report
    assert (report.engine_metric, report.flips, report.outcome) == (0.0, COUNT, "refused")


def test_another_set_than_the_source_was_judged_on_is_refused(
    tmp_path: Path, model: Path, labelled: Path, rows: list[made.Array]
) -> None:
    validated(tmp_path, model, model, labelled)
    fewer = made.raw_set(tmp_path / "other", [made.raw_image(row) for row in rows[:5]], [None] * 5)
    (fewer / "index.jsonl").write_text((fewer / "index.jsonl").read_text())
    judgements = tmp_path / "judge/judgements.jsonl"
    judgements.write_text("".join(judgements.read_text().splitlines(keepends=True)[1:]))
    parameters = ValidateParameters(
        target="ort.cpu",
        contract=made.CONTRACT,
        dataset=DatasetRef(name="rows", version=1),
        form="raw",
        max_loss=0.01,
        batchable=True,
        threads=1,
    )
    with pytest.raises(Refused, match="not where it was"):
        perform(
            validate.STEP,
            parameters,
            {"engine": model, "rows": fewer, "judgements": judgements},
            tmp_path / "again",
        )
