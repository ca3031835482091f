"""FP16 and weights by groups: half, a quarter, an eighth of the size, and loaded before they are kept."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.data.samples import Sample, write_samples
from builder.graphs.walks import operators, read_graph
from builder.steps import shrink
from builder.steps.engines import opened
from builder.steps.shrink import Kind, ShrinkParameters, ShrinkResult
from builder.steps.step import Refused, perform
from tests.builder import made

WIDTH = 256


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """x[n, 256] → MatMul → Relu → Gemm (transposed weights, bias) → scores[n, 4]."""
    generator = np.random.default_rng(4)
    stored = {
        "first": generator.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 16,
        "second": generator.standard_normal((4, WIDTH)).astype(np.float32) / 16,
        "bias": generator.standard_normal(4).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["hidden"], "body"),
            helper.make_node("Relu", ["hidden"], ["active"], "relu"),
            helper.make_node("Gemm", ["active", "second", "bias"], ["scores"], "head", transB=1),
        ],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    rows = np.random.default_rng(5).standard_normal((6, 1, WIDTH)).astype(np.float32)
    write_samples(tmp_path / "x.npz", [Sample(f"row-{at}", {"x": row}) for at, row in enumerate(rows)])
    return made.save(graph, tmp_path / "dense.onnx")


def shrunk(tmp_path: Path, model: Path, to: Kind, excluded: tuple[str, ...] = ()) -> ShrinkResult:
    parameters = ShrinkParameters(target="ort.cpu", to=to, exclude_nodes=excluded)
    return perform(shrink.STEP, parameters, {"model": model, "sample": tmp_path / "x.npz"}, tmp_path / to)


def scores(model: Path) -> made.Array:
    rows = np.random.default_rng(6).standard_normal((64, WIDTH)).astype(np.float32)
    with opened(model, "ort.cpu") as engine:
        return engine.infer({"x": rows})["scores"]


@pytest.mark.parametrize(
    ("to", "share", "least_db"), [("fp16", 0.52, 55.0), ("int8", 0.32, 40.0), ("int4", 0.19, 15.0)]
)
def test_smaller_and_near(tmp_path: Path, dense: Path, to: Kind, share: float, least_db: float) -> None:
    found = shrunk(tmp_path, dense, to)
    engine = tmp_path / to / "engine.onnx"
    assert {"body", "head"} <= set(found.shrunk)
    assert engine.stat().st_size < share * dense.stat().st_size
    wanted, got = scores(dense), scores(engine)
    assert got.dtype == np.float32
    assert 10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum()) > least_db


def test_groups_of_weights_are_what_onnx_runtime_multiplies(tmp_path: Path, dense: Path) -> None:
    shrunk(tmp_path, dense, "int4")
    model = read_graph(tmp_path / "int4/engine.onnx")
    assert operators(model)["com.microsoft.MatMulNBits"] == 2
    assert {one.name for one in model.graph.initializer}.isdisjoint({"first", "second"})


def test_excluded_weights_stay(tmp_path: Path, dense: Path) -> None:
    assert shrunk(tmp_path, dense, "int8", ("head",)).shrunk == ("body",)
    assert "second" in {one.name for one in read_graph(tmp_path / "int8/engine.onnx").graph.initializer}


def test_fp16_on_a_cpu_says_that_it_proves_no_gpu(tmp_path: Path, dense: Path) -> None:
    (warning,) = shrunk(tmp_path, dense, "fp16").warnings
    assert "not a GPU's arithmetic" in warning
    assert shrunk(tmp_path, dense, "int8").warnings == ()


def test_fp16_keeps_fp32_around_what_has_no_fp16(tmp_path: Path) -> None:
    """Casts appear around it, and the signature stays."""
    nodes = made.conv_nodes()[:-1]
    nodes += [
        helper.make_node("CumSum", ["logits", "axis"], ["summed"], "sum"),
        helper.make_node("Softmax", ["summed"], ["scores"], "softmax", axis=1),
    ]
    model = made.conv_model(tmp_path / "m.onnx", nodes=nodes, more={"axis": np.array(1, np.int64)})
    write_samples(tmp_path / "x.npz", [Sample("row", {"image": made.images(1)[0]})])
    shrunk(tmp_path, model, "fp16")
    graph = onnx.load(str(tmp_path / "fp16/engine.onnx")).graph
    assert graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    (cumulative,) = (node for node in graph.node if node.op_type == "CumSum")
    casts = {name: node for node in graph.node if node.op_type == "Cast" for name in node.output}
    assert helper.get_attribute_value(casts[cumulative.input[0]].attribute[0]) == TensorProto.FLOAT


def test_no_weights_to_group_is_refused(tmp_path: Path) -> None:
    write_samples(tmp_path / "x.npz", [Sample("row", {"image": made.images(1)[0]})])
    nodes = made.conv_nodes()
    nodes[4] = helper.make_node("MatMul", ["flat", "turned"], ["logits"], "dense")
    nodes.insert(4, helper.make_node("Abs", ["dense"], ["turned"], "abs"))
    computed = made.conv_model(tmp_path / "computed.onnx", nodes=nodes)
    with pytest.raises(Refused, match="no MatMul or Gemm multiplies by a stored matrix"):
        shrunk(tmp_path, computed, "int4")
