from pathlib import Path

import numpy as np
import pytest

from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.errors import RunFailed
from serving.runtimes.loading import open_engine
from serving.runtimes.warm import batch_sizes, warm
from tests.serving import tiny_models


def _signature(first: int | str) -> Signature:
    return Signature(inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=(first, 4)),), outputs=())


@pytest.mark.parametrize(
    ("first", "rows", "sizes"),
    [
        ("batch", 1, (1,)),
        ("batch", 8, (1, 2, 4, 8)),
        ("batch", 12, (1, 2, 4, 8, 12)),
        ("batch", 200, (1, 2, 4, 8, 16, 32, 64, 128, 200)),
        (1, 32, (1,)),
        (6, 32, (6,)),
    ],
)
def test_every_bucket_is_run(first: int | str, rows: int, sizes: tuple[int, ...]) -> None:
    assert batch_sizes(_signature(first), rows) == sizes


def test_varying_axes_and_text_are_made_up(tmp_path: Path) -> None:
    for path in (tiny_models.adder(tmp_path / "a.onnx"), tiny_models.echo(tmp_path / "e.onnx")):
        engine, _, warmed = open_engine(path, "ort.cpu", warm_rows=4)
        assert [run.rows for run in warmed.runs] == [1, 2, 4]
        assert not warmed.skipped
        engine.close()


def test_an_example_must_run_and_made_up_inputs_need_not(tmp_path: Path) -> None:
    engine, _, _ = open_engine(tiny_models.adder(tmp_path / "a.onnx", inner=("left",)), "ort.cpu")
    example = {"a": np.zeros((1, 3), np.float32), "b": np.zeros((1, 2), np.float32)}
    with pytest.raises(RunFailed):
        warm(engine, 2, example)
    example["b"] = np.zeros((5, 3), np.float32)
    assert [run.rows for run in warm(engine, 2, example).runs] == [1, 2]
    engine.close()


def test_a_refusal_of_made_up_inputs_is_told(tmp_path: Path) -> None:
    picky = tiny_models.failing_on_value(tmp_path / "f.onnx", rows=0)
    engine, _, warmed = open_engine(picky, "ort.cpu", warm_rows=4)
    assert warmed.runs == ()
    assert "failed while it ran" in warmed.skipped
    engine.close()
