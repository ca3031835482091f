"""An exporter's names become the contract's, whatever they were."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.frontends.finish import finish
from builder.steps.engines import opened
from builder.steps.step import Refused
from registry.contract.versions import Signature
from tests.builder import made
from tests.builder.frontends.inside.cases import signature, tensor

SIGNATURE = signature(tensor("left", "batch", 2), tensor("right", "batch", 2), tensor("sum", "batch", 2))


def exported(path: Path, inputs: tuple[str, str], inner: str, output: str) -> Path:
    """output = (first − second) doubled, by way of `inner`; with traces of where it was made."""
    node = helper.make_node("Sub", list(inputs), [inner], "sub", doc_string="/home/me/net.py")
    graph = helper.make_graph(
        [node, helper.make_node("Add", [inner, inner], [output], "add")],
        "exported at noon",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["s0", 2]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["s1", 2])],
        [numpy_helper.from_array(np.zeros(3, np.float32), "unused")],
    )
    return made.save(graph, path)


def finished(tmp_path: Path, wanted: Signature, inputs: tuple[str, str], inner: str, output: str) -> Path:
    source = exported(tmp_path / "raw.onnx", inputs, inner, output)
    finish(source, tmp_path / "model.onnx", wanted, (output,), "an-exporter 1.2", 18)
    return tmp_path / "model.onnx"


@pytest.mark.parametrize(
    ("inputs", "inner", "output", "right"),
    [
        (("left", "right"), "x", "sum", -2.0),
        (("right", "left"), "x", "sum", 2.0),
        (("a", "b"), "x", "out", -2.0),
        (("a", "b"), "sum", "out", -2.0),
        (("a", "b"), "left", "out", -2.0),
        (("arg0", "arg/1"), "right", "Identity:0", -2.0),
    ],
)
def test_names_become_the_contracts(
    tmp_path: Path, inputs: tuple[str, str], inner: str, output: str, right: float
) -> None:
    path = finished(tmp_path, SIGNATURE, inputs, inner, output)
    with opened(path, "ort.cpu") as engine:
        given = {"left": np.zeros((3, 2), np.float32), "right": np.ones((3, 2), np.float32)}
        assert np.array_equal(engine.infer(given)["sum"], np.full((3, 2), right, np.float32))
        assert [spec.shape for spec in engine.signature.outputs] == [("batch", 2)]


def test_what_tells_of_its_making_is_gone(tmp_path: Path) -> None:
    model = onnx.load(str(finished(tmp_path, SIGNATURE, ("a", "b"), "x", "y")))
    assert b"/home/me" not in model.SerializeToString()
    assert [tensor.name for tensor in model.graph.initializer] == []
    assert (model.producer_name, model.producer_version, model.graph.name) == ("an-exporter", "1.2", "model")


def test_an_input_that_was_dropped_is_told(tmp_path: Path) -> None:
    three = signature(*SIGNATURE.inputs, tensor("more", "batch", 2), tensor("sum", "batch", 2))
    with pytest.raises(Refused, match=r"2 inputs \(a, b\) and the contract names 3"):
        finished(tmp_path, three, ("a", "b"), "x", "y")
