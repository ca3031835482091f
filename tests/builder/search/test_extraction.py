"""What leaving an operator out costs: multiplications of one row, by hand."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from builder.search.extraction import Graph

NODES = {
    # 3×3 filters over 4 channels, 8 of them, on 5×5 places of each of two rows.
    "conv": ("Conv", (8, 4, 3, 3), (2, 8, 5, 5), {}, 8 * 25 * 36),
    "depthwise": ("Conv", (8, 1, 3, 3), (2, 8, 5, 5), {"group": 8}, 8 * 25 * 9),
    "matmul": ("MatMul", (16, 10), (2, 7, 10), {}, 7 * 10 * 16),
    "gemm": ("Gemm", (16, 10), (2, 10), {}, 10 * 16),
    "turned": ("Gemm", (10, 16), (2, 10), {"transB": 1}, 10 * 16),
    "sum": ("Add", None, (2, 10), {}, 10),
}


@pytest.mark.parametrize("name", NODES)
def test_operations_are_those_of_one_row(name: str) -> None:
    kind, weights, shape, attributes, wanted = NODES[name]
    node = helper.make_node(kind, ["x", "w"], ["y"], name, **attributes)  # type: ignore[arg-type]
    stored = [] if weights is None else [numpy_helper.from_array(np.zeros(weights, np.float32), "w")]
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "one", [], [y], stored))
    assert Graph(model).operations(node, np.zeros(shape)) == wanted
