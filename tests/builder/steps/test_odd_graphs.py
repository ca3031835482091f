"""Graphs that the standard allows and exporters seldom write: through check, optimise and INT8."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.data.samples import read_samples, write_samples
from builder.judgement.comparison import deviation
from builder.steps import check, optimise, quantise
from builder.steps.check import CheckParameters, CheckResult
from builder.steps.engines import opened
from builder.steps.optimise import OptimiseParameters
from builder.steps.quantise import QuantiseParameters
from builder.steps.sample import made_up
from builder.steps.step import Refused, perform
from registry.contract.recipes import Int8Options
from registry.contract.versions import Dtype, Signature, TensorSpec

ROW = Signature(
    inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("n", 4)),),
    outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("n", 4)),),
)
DENSE = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
NUMBERS, TEXT = TensorProto.FLOAT, TensorProto.STRING


def saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    ins: dict[str, list[int | str]],
    outs: dict[str, list[int | str]],
    stored: dict[str, np.ndarray],
    *,
    dtype: int = NUMBERS,
    functions: tuple[onnx.FunctionProto, ...] = (),
    domains: dict[str, int] | None = None,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "odd",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in ins.items()],
        [helper.make_tensor_value_info(name, NUMBERS, shape) for name, shape in outs.items()],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid(name, version) for name, version in {"": 17, **(domains or {})}.items()]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions)), str(path)
    )
    return path


def checked(tmp_path: Path, model: Path, signature: Signature = ROW) -> CheckResult:
    write_samples(tmp_path / "rows.npz", made_up(signature))
    parameters = CheckParameters(signature=signature, target="ort.cpu", max_rows=8)
    return perform(
        check.STEP, parameters, {"model": model, "sample": tmp_path / "rows.npz"}, tmp_path / "checked"
    )


def optimised(tmp_path: Path) -> Path:
    """What check wrote, in ONNX's own operators; it must answer as before."""
    inputs = {"model": tmp_path / "checked/model.onnx", "sample": tmp_path / "rows.npz"}
    parameters = OptimiseParameters(target="ort.cpu", level="basic")
    perform(optimise.STEP, parameters, inputs, tmp_path / "optimised")
    made = tmp_path / "optimised/model.onnx"
    with opened(inputs["model"], "ort.cpu") as before, opened(made, "ort.cpu") as after:
        for row in read_samples(inputs["sample"]):
            assert deviation(before.infer(row.tensors), after.infer(row.tensors)) < 1e-5
    return made


def test_a_function_of_the_models_own_is_opened_and_what_it_holds_is_quantised(tmp_path: Path) -> None:
    body = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    own = helper.make_function("own", "Dense", ["x", "w"], ["y"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Dense", ["x", "w"], ["y"], "dense", domain="own")]
    shape: dict[str, list[int | str]] = {"x": ["n", 4]}
    model = saved(
        tmp_path / "own.onnx",
        nodes,
        shape,
        {"y": ["n", 4]},
        {"w": DENSE},
        functions=(own,),
        domains={"own": 1},
    )
    assert checked(tmp_path, model).batchable
    flat = optimised(tmp_path)
    assert [node.op_type for node in onnx.load(str(flat)).graph.node] == ["MatMul", "Relu"]
    parameters = QuantiseParameters(target="ort.cpu", mode="dynamic", int8=Int8Options(operators=("MatMul",)))
    inputs = {"model": flat, "sample": tmp_path / "rows.npz"}
    assert len(perform(quantise.STEP, parameters, inputs, tmp_path / "int8").quantised) == 1


def test_two_axes_of_one_name_are_made_up_equal(tmp_path: Path) -> None:
    """A mask over pairs of places: both of its inner axes are as long as the text."""
    signature = Signature(
        inputs=(
            TensorSpec(name="x", dtype=Dtype.FP32, shape=("n", "len", 4)),
            TensorSpec(name="mask", dtype=Dtype.FP32, shape=("n", "len", "len")),
        ),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("n", "len", 4)),),
    )
    nodes = [helper.make_node("MatMul", ["mask", "x"], ["y"])]
    ins: dict[str, list[int | str]] = {"x": ["n", "len", 4], "mask": ["n", "len", "len"]}
    model = saved(tmp_path / "mask.onnx", nodes, ins, {"y": ["n", "len", 4]}, {})
    found = checked(tmp_path, model, signature)
    assert found.batchable
    assert len({shape[1] for shape in found.shapes}) >= 4
    optimised(tmp_path)


def test_axes_of_one_name_that_are_not_equal_are_refused(tmp_path: Path) -> None:
    """The batch and the features are both called n, and only one of them may vary."""
    both: tuple[int | str, ...] = ("n", "n")
    signature = Signature(
        inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=both),),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=both),),
    )
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = saved(tmp_path / "n.onnx", nodes, {"x": list(both)}, {"y": list(both)}, {"w": DENSE})
    with pytest.raises(Refused, match=r"axis 1 \(n\).*fixed at 4"):
        checked(tmp_path, model, signature)


def test_weights_of_no_elements_do_no_harm(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["w", "none"], ["all"], axis=0),
        helper.make_node("MatMul", ["x", "all"], ["y"]),
    ]
    stored = {"w": DENSE, "none": np.zeros((0, 4), np.float32)}
    model = saved(tmp_path / "none.onnx", nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, stored)
    assert checked(tmp_path, model).batchable
    optimised(tmp_path)


def test_text_goes_in(tmp_path: Path) -> None:
    signature = ROW.model_copy(
        update={
            "inputs": (TensorSpec(name="x", dtype=Dtype.BYTES, shape=("n", 1)),),
            "outputs": (TensorSpec(name="y", dtype=Dtype.FP32, shape=("n", 1)),),
        }
    )
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["a", "b"],
        values_floats=[1.0, 2.0],
        default_float=-1.0,
    )
    model = saved(
        tmp_path / "text.onnx",
        [node],
        {"x": ["n", 1]},
        {"y": ["n", 1]},
        {},
        dtype=TEXT,
        domains={"ai.onnx.ml": 2},
    )
    assert checked(tmp_path, model, signature).batchable
    optimised(tmp_path)
