"""Which rows are taken, and what is made up where there are none."""

from pathlib import Path

import pytest

from builder.data.samples import read_samples
from builder.steps import sample
from builder.steps.sample import SampleParameters, SampleStepResult, made_up
from builder.steps.step import Refused, perform
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made


def taken(tmp_path: Path, folder: Path | None, rows: int = 8) -> SampleStepResult:
    parameters = SampleParameters(signature=made.SIGNATURE, pipeline=made.CONTRACT.pipeline, rows=rows)
    return perform(sample.STEP, parameters, {} if folder is None else {"rows": folder}, tmp_path / "out")


def test_the_same_rows_are_taken_whatever_their_order(tmp_path: Path) -> None:
    raws = [made.raw_image(row) for row in made.images(30)]
    folder = made.raw_set(tmp_path / "rows", raws, [None] * 30)
    found = taken(tmp_path, folder)
    first = (tmp_path / "out/sample.npz").read_bytes()
    lines = (folder / "index.jsonl").read_text().splitlines(keepends=True)
    (folder / "index.jsonl").write_text("".join(lines[::-1]))
    taken(tmp_path, folder)
    assert (found.rows, found.made_up) == (8, False)
    assert (tmp_path / "out/sample.npz").read_bytes() == first


def test_raw_inputs_are_kept_for_measuring_the_pipeline(tmp_path: Path) -> None:
    raws = [made.raw_image(row) for row in made.images(3)]
    taken(tmp_path, made.raw_set(tmp_path / "rows", raws, [None] * 3))
    assert {one.raw for one in read_samples(tmp_path / "out/sample.npz")} == set(raws)


def test_a_row_that_is_no_input_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    folder = made.raw_set(tmp_path / "rows", [b'{"image": [[[1, 2]]]}'], [None])
    with pytest.raises(Refused, match=r"row 'row-00000' of the data set is no input of this version"):
        taken(tmp_path, folder)


def test_rows_are_made_up_by_the_signature(tmp_path: Path) -> None:
    found = taken(tmp_path, None)
    assert found.made_up
    assert all(
        one.tensors["image"].shape == (1, 1, 12, 12) for one in read_samples(tmp_path / "out/sample.npz")
    )


def test_made_up_rows_vary_in_their_named_dimensions_together() -> None:
    signature = Signature(
        inputs=(
            TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
            TensorSpec(name="mask", dtype=Dtype.INT64, shape=("batch", "length")),
            TensorSpec(name="text", dtype=Dtype.BYTES, shape=("batch", 1)),
        ),
        outputs=(),
    )
    rows = made_up(signature)
    assert len({row.tensors["ids"].shape for row in rows}) == 4
    assert all(row.tensors["ids"].shape == row.tensors["mask"].shape for row in rows)
    assert {int(value) for row in rows for value in row.tensors["ids"].ravel()} == {0, 1}
