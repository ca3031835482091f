"""Small ONNX models, written where the test wants them. Each returns its path."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
IR_VERSION = 10


def classifier(
    path: Path, features: int = 4, classes: int = 3, dynamic_batch: bool = True, softmax: bool = True
) -> Path:
    """`x` FP32[batch, features] → `scores` FP32[batch, classes]: of a row of ones at i, class i % classes is
    the highest. Without `softmax` the scores are logits."""
    weights = np.zeros((features, classes), dtype=np.float32)
    weights[np.arange(features), np.arange(features) % classes] = 4.0
    batch = "batch" if dynamic_batch else 1
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits" if softmax else "scores"])]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], ["scores"], axis=-1))
    return _save(
        path,
        nodes,
        [_value("x", TensorProto.FLOAT, [batch, features])],
        [_value("scores", TensorProto.FLOAT, [batch, classes])],
        [numpy_helper.from_array(weights, "w")],
    )


def adder(path: Path, amount: float = 1.0, inner: tuple[int | str, ...] = ("size",)) -> Path:
    """`a`, `b` FP32[batch, *inner] → `sum` = a + b + amount, of the same shape."""
    shape = ["batch", *inner]
    return _save(
        path,
        [
            helper.make_node("Add", ["a", "b"], ["ab"]),
            helper.make_node("Add", ["ab", "amount"], ["sum"]),
        ],
        [_value("a", TensorProto.FLOAT, shape), _value("b", TensorProto.FLOAT, shape)],
        [_value("sum", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array(amount, dtype=np.float32), "amount")],
    )


def byte_window_classifier(path: Path, tokens: int = 16, classes: int = 4) -> Path:
    """`bytes` INT32[batch, tokens] → `scores` FP32[batch, classes], softmax over weighted token values: a
    shift of the window by one position changes the answer."""
    weights = (np.random.default_rng(7).standard_normal((tokens, classes)) * 4).astype(np.float32)
    return _save(
        path,
        [
            helper.make_node("Cast", ["bytes"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Div", ["floats", "scale"], ["small"]),
            helper.make_node("MatMul", ["small", "w"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["scores"], axis=-1),
        ],
        [_value("bytes", TensorProto.INT32, ["batch", tokens])],
        [_value("scores", TensorProto.FLOAT, ["batch", classes])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array(256, dtype=np.float32), "scale"),
        ],
    )


def row_sum(path: Path) -> Path:
    """`x` FP32[batch, 4] → `y` FP32[rows, 4]: one row, the sum of all that came in. A batch spoils it."""
    axis = numpy_helper.from_array(np.array([0], dtype=np.int64), "axis")
    return _save(
        path,
        [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=1)],
        [_value("x", TensorProto.FLOAT, ["batch", 4])],
        [_value("y", TensorProto.FLOAT, ["rows", 4])],
        [axis],
    )


def slow(path: Path, work: int = 200) -> Path:
    """`x` FP32[batch, 4] → `y` = x, after `work` passes of needless work (roughly 1 ms each)."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "matrix"], ["mixed"]),
            helper.make_node("Tanh", ["mixed"], ["state_out"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "pass",
        [
            _value("step", TensorProto.INT64, []),
            _value("go", TensorProto.BOOL, []),
            _value("state", TensorProto.FLOAT, [256, 256]),
        ],
        [_value("go_out", TensorProto.BOOL, []), _value("state_out", TensorProto.FLOAT, [256, 256])],
        [numpy_helper.from_array(np.eye(256, dtype=np.float32), "matrix")],
    )
    return _save(
        path,
        [
            helper.make_node("Loop", ["count", "go_on", "start"], ["end"], body=body),
            helper.make_node("ReduceSum", ["end"], ["total"], keepdims=0),
            helper.make_node("Mul", ["total", "zero"], ["nothing"]),
            helper.make_node("Add", ["x", "nothing"], ["y"]),
        ],
        [_value("x", TensorProto.FLOAT, ["batch", 4])],
        [_value("y", TensorProto.FLOAT, ["batch", 4])],
        [
            numpy_helper.from_array(np.array(work, dtype=np.int64), "count"),
            numpy_helper.from_array(np.array(True), "go_on"),
            numpy_helper.from_array(np.full((256, 256), 0.01, dtype=np.float32), "start"),
            numpy_helper.from_array(np.array(0, dtype=np.float32), "zero"),
        ],
    )


def failing_on_value(path: Path, rows: int = 8) -> Path:
    """`index` INT64[batch, 1] → `y` FP32[batch, 1] = the index; a run with any index outside
    [-rows, rows) fails inside the engine."""
    return _save(
        path,
        [helper.make_node("Gather", ["table", "index"], ["y"], axis=0)],
        [_value("index", TensorProto.INT64, ["batch", 1])],
        [_value("y", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(np.arange(rows, dtype=np.float32), "table")],
    )


def heavy(path: Path, megabytes: int = 64) -> Path:
    """`x` FP32[batch, 1024] → `y` FP32[batch, columns]; its weights take so many megabytes."""
    columns = megabytes * 256
    weights = np.ones((1024, columns), dtype=np.float32)
    weights[0] = np.arange(columns)
    return _save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [_value("x", TensorProto.FLOAT, ["batch", 1024])],
        [_value("y", TensorProto.FLOAT, ["batch", columns])],
        [numpy_helper.from_array(weights, "w")],
    )


def echo(path: Path, element: int = TensorProto.STRING) -> Path:
    """`x` → `y` = x, of one ONNX element type, [batch, size]."""
    shape = ["batch", "size"]
    return _save(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        [_value("x", element, shape)],
        [_value("y", element, shape)],
        [],
    )


def tokens(path: Path) -> Path:
    """`ids`, `mask` INT64[batch, length] → `mean` FP32[batch, 1] of the ids that the mask names, and `each`
    FP32[batch, length], the ids themselves."""
    ids = ["batch", "length"]
    return _save(
        path,
        [
            helper.make_node("Cast", ["ids"], ["each"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["mask"], ["known"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["each", "known"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "axis"], ["sum"], keepdims=1),
            helper.make_node("ReduceSum", ["known", "axis"], ["count"], keepdims=1),
            helper.make_node("Div", ["sum", "count"], ["mean"]),
        ],
        [_value("ids", TensorProto.INT64, ids), _value("mask", TensorProto.INT64, ids)],
        [_value("mean", TensorProto.FLOAT, ["batch", 1]), _value("each", TensorProto.FLOAT, ids)],
        [numpy_helper.from_array(np.array([1], dtype=np.int64), "axis")],
    )


def cells(path: Path, side: int = 32, count: int = 4) -> Path:
    """`image` FP32[batch, 1, side, side] → `boxes` FP32[batch, count², 4] (its cells, xyxy) and `scores`
    FP32[batch, count², 1], the brightness of each cell."""
    size = side // count
    corners = [
        [x * size, y * size, (x + 1) * size, (y + 1) * size] for y in range(count) for x in range(count)
    ]
    return _save(
        path,
        [
            helper.make_node(
                "AveragePool", ["image"], ["cells"], kernel_shape=[size, size], strides=[size, size]
            ),
            helper.make_node("Reshape", ["cells", "column"], ["scores"]),
            helper.make_node("Mul", ["scores", "zeros"], ["nothing"]),
            helper.make_node("Add", ["nothing", "corners"], ["boxes"]),
        ],
        [_value("image", TensorProto.FLOAT, ["batch", 1, side, side])],
        [
            _value("boxes", TensorProto.FLOAT, ["batch", count**2, 4]),
            _value("scores", TensorProto.FLOAT, ["batch", count**2, 1]),
        ],
        [
            numpy_helper.from_array(np.array([-1, count**2, 1], dtype=np.int64), "column"),
            numpy_helper.from_array(np.zeros((1, 1, 4), dtype=np.float32), "zeros"),
            numpy_helper.from_array(np.array([corners], dtype=np.float32), "corners"),
        ],
    )


def _value(name: str, element: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto],
) -> Path:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path
