"""Smaller graphs, equal answers, and what was fused is counted."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from builder.graphs.walks import operators, read_graph
from builder.steps import optimise
from builder.steps.optimise import Level, OptimiseParameters, OptimiseResult
from builder.steps.step import perform
from tests.builder import made


def optimised(tmp_path: Path, model: Path, sample: Path, level: Level) -> OptimiseResult:
    parameters = OptimiseParameters(target="ort.cpu", level=level)
    return perform(optimise.STEP, parameters, {"model": model, "sample": sample}, tmp_path / level)


@pytest.fixture
def padded(tmp_path: Path) -> Path:
    """The classifier with a detour that an optimiser removes: an identity and a constant sum."""
    nodes = made.conv_nodes()
    nodes[1:2] = [
        helper.make_node("Identity", ["maps"], ["same"], "same"),
        helper.make_node("Relu", ["same"], ["active"], "relu"),
    ]
    nodes[-1:] = [
        helper.make_node("Add", ["left", "right"], ["shift"], "shift"),
        helper.make_node("Add", ["logits", "shift"], ["moved"], "moved"),
        helper.make_node("Softmax", ["moved"], ["scores"], "softmax", axis=1),
    ]
    more = {"left": np.full(4, 0.5, np.float32), "right": np.full(4, -0.5, np.float32)}
    return made.conv_model(tmp_path / "padded.onnx", nodes=nodes, more=more)


def test_extended_fuses_and_answers_the_same(tmp_path: Path, padded: Path, sample: Path) -> None:
    found = optimised(tmp_path, padded, sample, "extended")
    after = operators(read_graph(tmp_path / "extended/model.onnx"))
    assert found.nodes < found.nodes_before == 9
    assert found.fused == {"com.microsoft.FusedConv": 1}
    assert after["com.microsoft.FusedConv"] == 1
    assert found.warnings == ()
    rows = made.images(12)
    assert made.answers(tmp_path / "extended/model.onnx", rows) == made.answers(padded, rows)


def test_basic_leaves_the_operators_that_quantisation_needs(
    tmp_path: Path, padded: Path, sample: Path
) -> None:
    found = optimised(tmp_path, padded, sample, "basic")
    after = operators(read_graph(tmp_path / "basic/model.onnx"))
    assert found.nodes < found.nodes_before
    assert after["Conv"] == 1
    assert not [name for name in after if "." in name]


def test_equal_inputs_give_equal_bytes(tmp_path: Path, padded: Path, sample: Path) -> None:
    optimised(tmp_path, padded, sample, "extended")
    first = (tmp_path / "extended/model.onnx").read_bytes()
    optimised(tmp_path, padded, sample, "extended")
    assert (tmp_path / "extended/model.onnx").read_bytes() == first


def test_an_input_with_a_default_stays(tmp_path: Path, sample: Path) -> None:
    """Initializers that are inputs too may be overridden by a caller; the required inputs stay the same."""
    path = made.conv_model(tmp_path / "defaults.onnx")
    model = onnx.load(str(path))
    model.graph.input.append(helper.make_tensor_value_info("dense_bias", onnx.TensorProto.FLOAT, [4]))
    onnx.save(model, str(path))
    optimised(tmp_path, path, sample, "extended")
    rows = made.images(6)
    assert made.answers(tmp_path / "extended/model.onnx", rows) == made.answers(path, rows)


def hard_swish(path: Path, *, division: bool = True, watched: bool = False) -> Path:
    """The classifier with x · clip(x + 3, 0, 6) ÷ 6 written out instead of its Relu."""
    nodes = made.conv_nodes()
    last = ("Div", "six") if division else ("Mul", "sixth")
    nodes[1:2] = [
        helper.make_node("Add", ["maps", "three"], ["up"], "up"),
        helper.make_node("Clip", ["up", "zero", "six"], ["clipped"], "clip"),
        helper.make_node("Mul", ["maps", "clipped"], ["product"], "times"),
        helper.make_node(last[0], ["product", last[1]], ["active"], "last"),
    ]
    if watched:  # something else reads the chain from the inside
        nodes[-1:] = [
            helper.make_node("ReduceMean", ["clipped"], ["level"], "level", keepdims=0),
            helper.make_node("Add", ["logits", "level"], ["moved"], "moved"),
            helper.make_node("Softmax", ["moved"], ["scores"], "softmax", axis=1),
        ]
    numbers = {"three": 3, "zero": 0, "six": 6, "sixth": 1 / 6}
    return made.conv_model(
        path, nodes=nodes, more={name: np.array(one, np.float32) for name, one in numbers.items()}
    )


@pytest.mark.parametrize("division", [True, False])
def test_a_hard_swish_that_was_written_out_is_put_together(
    tmp_path: Path, sample: Path, division: bool
) -> None:
    model = hard_swish(tmp_path / "swish.onnx", division=division)
    found = optimised(tmp_path, model, sample, "basic")
    assert found.fused == {"HardSigmoid": 1}
    assert operators(read_graph(tmp_path / "basic/model.onnx"))["Clip"] == 0
    rows = made.images(12)
    assert made.answers(tmp_path / "basic/model.onnx", rows) == made.answers(model, rows)


def test_a_chain_that_is_read_from_the_inside_stays(tmp_path: Path, sample: Path) -> None:
    model = hard_swish(tmp_path / "swish.onnx", watched=True)
    optimised(tmp_path, model, sample, "basic")
    assert operators(read_graph(tmp_path / "basic/model.onnx"))["Clip"] == 1
