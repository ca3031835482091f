"""Learned scales around convolutions go into their weights, and answers stay what they were."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.graphs.folding import fold_scalars

GENERATOR = np.random.default_rng(12)


def model(nodes: list[onnx.NodeProto], *outputs: str) -> onnx.ModelProto:
    """x FP32[n, 3, 6, 6] → the outputs; numbers `two`, `third`, `wide`, kernels `k` (3×3) and `p` (1×1)."""
    stored = {
        "two": np.array([2], np.float32),
        "third": np.array(-1 / 3, np.float32),
        "none": np.array([0], np.float32),
        "wide": np.array([[[[[1.5]]]]], np.float32),
        "k": GENERATOR.standard_normal((3, 3, 3, 3)).astype(np.float32),
        "p": GENERATOR.standard_normal((3, 3, 1, 1)).astype(np.float32),
        "bias": GENERATOR.standard_normal(3).astype(np.float32),
    }
    rank = 5 if any("wide" in one.input for one in nodes) else 4
    graph = helper.make_graph(
        nodes,
        "scales",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 6, 6])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b", "c", "d", "e"][:rank])
            for name in outputs
        ],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(given: str, made: str, kernel: str = "p", *more: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node("Conv", [given, kernel, *more], [made], made, **attributes)  # type: ignore[arg-type]


def node(kind: str, *names: str) -> onnx.NodeProto:
    return helper.make_node(kind, names[:-1], names[-1:], names[-1])


BEHIND = [
    conv("x", "c", "k", "bias", pads=[1, 1, 1, 1]),
    node("Mul", "two", "c", "m"),
    node("Add", "m", "third", "y"),
]
AHEAD = [node("Relu", "x", "r"), node("Mul", "r", "two", "m"), node("Add", "m", "third", "a"), conv("a", "y")]
PADDED = [*AHEAD[:3], conv("a", "y", "k", "bias", pads=[1, 1, 1, 1])]
READ_TWICE = [conv("x", "c"), node("Mul", "c", "two", "m"), node("Add", "m", "c", "y")]
GIVEN = [conv("x", "c"), node("Mul", "c", "two", "m"), node("Relu", "m", "y")]
RAISES = [conv("x", "c"), node("Mul", "c", "wide", "y")]
NOTHING = [node("Relu", "x", "r"), node("Mul", "r", "none", "m"), node("Add", "m", "third", "a"), *PADDED[3:]]


@pytest.mark.parametrize(
    ("nodes", "outputs", "gone", "left"),
    [
        (BEHIND, ("y",), 2, ["Conv"]),
        (AHEAD, ("y",), 2, ["Relu", "Conv"]),
        # What is padded with is 0 and not the number, so that one Add stays.
        (PADDED, ("y",), 1, ["Relu", "Add", "Conv"]),
        (READ_TWICE, ("y",), 0, ["Conv", "Mul", "Add"]),
        (GIVEN, ("y", "c"), 0, ["Conv", "Mul", "Relu"]),
        (GIVEN, ("y", "m"), 1, ["Conv", "Relu"]),
        (RAISES, ("y",), 0, ["Conv", "Mul"]),
        (NOTHING, ("y",), 0, ["Relu", "Mul", "Add", "Conv"]),
        ([*BEHIND, conv("y", "z", "k", "bias")], ("z",), 2, ["Conv", "Conv"]),
    ],
)
def test_what_folds_goes_and_answers_stay(
    tmp_path: Path, nodes: list[onnx.NodeProto], outputs: tuple[str, ...], gone: int, left: list[str]
) -> None:
    before = model(nodes, *outputs)
    after = onnx.ModelProto.FromString(before.SerializeToString())
    assert fold_scalars(after) == gone
    onnx.checker.check_model(after)
    assert [one.op_type for one in after.graph.node] == left
    x = GENERATOR.standard_normal((2, 3, 6, 6)).astype(np.float32)
    for wanted, got in zip(_run(before, x), _run(after, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def _run(made: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))
