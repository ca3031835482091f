"""Windows and tables as a training program made them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.contract.engines import GoldenReport
from registry.contract.pipeline import Column, PipelineSpec, PreStep, Regress, Table, Window
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made
from tests.builder.recorded import pair, proven

LENGTH = 8
WEIGHTS = np.random.default_rng(6).standard_normal((LENGTH, 1)).astype(np.float32)
SIGNATURE = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", LENGTH)),),
    outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 1)),),
)
SERIES = np.random.default_rng(8).integers(0, 100, 21).tolist()
STEP = Window(output="x", length=LENGTH, mean=(50.0,), std=(25.0,))


def model(path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "series",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", LENGTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(WEIGHTS, "weights")],
    )
    return made.save(graph, path)


def checked(folder: Path, pairs: list[dict[str, Any]], step: PreStep) -> GoldenReport:
    pipeline = PipelineSpec(pre=(step,), post=(Regress(output="y", scale=25, offset=50),))
    return proven(folder, model(folder / "model.onnx"), pairs, SIGNATURE, pipeline)


def trained(*starts: int) -> dict[str, Any]:
    """What the training program does: the windows that begin at `starts`."""
    x = np.stack([(np.array(SERIES[at : at + LENGTH], np.float32) - 50) / 25 for at in starts])
    y = x @ WEIGHTS
    answers = [{"value": float(one) * 25 + 50} for one in y[:, 0]]
    return pair(json.dumps(SERIES).encode(), {"x": x}, {"y": y}, answers if len(starts) > 1 else answers[0])


def test_the_window_of_training_is_ours(tmp_path: Path) -> None:
    assert checked(tmp_path, [trained(13)], STEP).first_difference is None
    slid = STEP.model_copy(update={"take": "all", "stride": 4, "align": "start"})
    assert checked(tmp_path, [trained(0, 4, 8, 12)], slid).first_difference is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"offset": 1}, "input 'x', element [0, 0]: wanted "),
        ({"align": "start", "stride": 4}, "input 'x', element [0, 0]: wanted "),
        ({"mean": (49.0,)}, "input 'x', element [0, 0]: wanted "),
        ({"std": ()}, "input 'x', element [0, 0]: wanted "),
        ({"take": "all"}, "input 'x': wanted shape [1, 8], got [14, 8]"),
    ],
)
def test_every_other_window_is_refused(tmp_path: Path, fault: dict[str, Any], said: str) -> None:
    report = checked(tmp_path, [trained(13)], STEP.model_copy(update=fault))
    assert report.first_difference
    assert report.first_difference.startswith(f"pair 1, pre-processing, {said}")


def test_every_row_of_several_has_its_answer(tmp_path: Path) -> None:
    slid = STEP.model_copy(update={"take": "all", "stride": 4, "align": "start"})
    recorded = trained(0, 4, 8, 12)
    recorded["answer"][2]["value"] += 1
    report = checked(tmp_path, [recorded], slid)
    assert report.first_difference
    assert report.first_difference.startswith("pair 1, post-processing, answer 2.value: wanted")
    del recorded["answer"][2]
    report = checked(tmp_path, [recorded], slid)
    assert report.first_difference == "pair 1, pre-processing: 3 answers were recorded, and ours makes 4 rows"


def test_another_order_of_columns_or_categories_is_refused(tmp_path: Path) -> None:
    columns = tuple(
        Column(name=name, categories=("red", "blue")) if name == "colour" else Column(name=name)
        for name in ("a", "b", "c", "colour", "d", "e", "f", "g")
    )
    raw = {"a": 1, "b": 2, "c": 3, "colour": "blue", "d": 4, "e": 5, "f": 6, "g": 7}
    x = np.array([[1, 2, 3, 1, 4, 5, 6, 7]], np.float32)
    recorded = pair(json.dumps(raw).encode(), {"x": x}, {"y": x @ WEIGHTS})
    assert checked(tmp_path, [recorded], Table(output="x", columns=columns)).passed
    swapped = (columns[1], columns[0], *columns[2:])
    report = checked(tmp_path, [recorded], Table(output="x", columns=swapped))
    assert report.first_difference == "pair 1, pre-processing, input 'x', element [0, 0]: wanted 1.0, got 2.0"
    other = columns[3].model_copy(update={"categories": ("blue", "red")})
    report = checked(tmp_path, [recorded], Table(output="x", columns=(*columns[:3], other, *columns[4:])))
    assert report.first_difference == "pair 1, pre-processing, input 'x', element [0, 3]: wanted 1.0, got 0.0"
