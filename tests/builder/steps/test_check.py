"""The contract against the real model, shapes that really run, and upgrades that change nothing."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from builder.data.samples import write_samples
from builder.steps import check
from builder.steps.check import CheckParameters, CheckResult
from builder.steps.sample import made_up
from builder.steps.step import Refused, perform
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made


def checked(
    tmp_path: Path, model: Path, sample: Path, signature: Signature = made.SIGNATURE, max_rows: int = 32
) -> CheckResult:
    parameters = CheckParameters(signature=signature, target="ort.cpu", max_rows=max_rows)
    return perform(check.STEP, parameters, {"model": model, "sample": sample}, tmp_path / "out")


def test_a_sound_model_stays_as_it_is(tmp_path: Path, model: Path, sample: Path) -> None:
    found = checked(tmp_path, model, sample)
    assert (tmp_path / "out/model.onnx").read_bytes() == model.read_bytes()
    assert (found.opset_before, found.opset, found.batchable, found.warnings) == (17, 17, True, ())
    assert {shape[0] for shape in found.shapes} == {1, 2, 3, 5}


def test_names_may_hold_slashes_spaces_and_any_letters(tmp_path: Path) -> None:
    odd, out = "bild/ä b:0", "ergebnis:0 ß/1"
    graph = helper.make_graph(
        [helper.make_node("Relu", [odd], [out], "knoten ü/1")],
        "odd",
        [helper.make_tensor_value_info(odd, TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["batch", 3])],
    )
    signature = Signature(
        inputs=(TensorSpec(name=odd, dtype=Dtype.FP32, shape=("batch", 3)),),
        outputs=(TensorSpec(name=out, dtype=Dtype.FP32, shape=("batch", 3)),),
    )
    write_samples(tmp_path / "odd.npz", made_up(signature))
    found = checked(tmp_path, made.save(graph, tmp_path / "odd.onnx", 13), tmp_path / "odd.npz", signature)
    assert (found.opset, found.batchable) == (17, True)


def test_a_model_without_a_batch_axis_is_never_batched(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "factor"], ["y"])],
        "scalars",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("factor", TensorProto.FLOAT, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    signature = Signature(
        inputs=(
            TensorSpec(name="x", dtype=Dtype.FP32, shape=("n",)),
            TensorSpec(name="factor", dtype=Dtype.FP32, shape=()),
        ),
        outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("n",)),),
    )
    write_samples(tmp_path / "scalars.npz", made_up(signature))
    model = made.save(graph, tmp_path / "scalars.onnx")
    assert not checked(tmp_path, model, tmp_path / "scalars.npz", signature).batchable


def test_an_old_opset_is_upgraded_and_answers_the_same(tmp_path: Path, sample: Path) -> None:
    nodes = made.conv_nodes()
    old = made.conv_model(tmp_path / "old.onnx", opset=13, nodes=nodes)
    found = checked(tmp_path, old, sample)
    assert (found.opset_before, found.opset) == (13, 17)
    assert onnx.load(str(tmp_path / "out/model.onnx")).opset_import[0].version == 17
    rows = made.images(8)
    assert made.answers(tmp_path / "out/model.onnx", rows) == made.answers(old, rows)


def test_an_upgrade_that_changes_answers_is_not_kept(tmp_path: Path, sample: Path) -> None:
    """Softmax of opset 12 works on everything behind its axis at once; here that is another answer."""
    nodes = made.conv_nodes()[:-2]
    nodes += [
        helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["logits"], "dense"),
        helper.make_node("Reshape", ["logits", "pairs"], ["grid"], "grid"),
        helper.make_node("Softmax", ["grid"], ["soft"], "softmax", axis=1),
        helper.make_node("Reshape", ["soft", "whole"], ["scores"], "whole"),
    ]
    more = {"pairs": np.array([-1, 2, 2], np.int64), "whole": np.array([-1, 4], np.int64)}
    old = made.conv_model(tmp_path / "old.onnx", opset=12, nodes=nodes, more=more)
    found = checked(tmp_path, old, sample)
    rows = made.images(8)
    assert made.answers(tmp_path / "out/model.onnx", rows) == made.answers(old, rows)
    if found.opset == 12:
        assert "kept opset 12" in " ".join(found.warnings)


def test_a_batch_axis_fixed_at_export_is_named_with_the_remedy(tmp_path: Path, sample: Path) -> None:
    frozen = made.conv_model(tmp_path / "frozen.onnx", batch=1)
    with pytest.raises(Refused, match=r"axis 0 \(batch\) of input 'image'.*fixed at 1.*max_rows to 1"):
        checked(tmp_path, frozen, sample)


def test_a_batch_axis_that_froze_inside_is_found_by_running(tmp_path: Path, sample: Path) -> None:
    """The size is computed, so the file itself says nothing of it."""
    nodes = made.conv_nodes()
    nodes[3:4] = [
        helper.make_node("ReduceMax", ["image"], ["peak"], "peak", keepdims=0),
        helper.make_node("Mul", ["peak", "nothing"], ["zero"], "zero"),
        helper.make_node("Cast", ["zero"], ["none"], "none", to=TensorProto.INT64),
        helper.make_node("Add", ["none", "one_row"], ["size"], "size"),
        helper.make_node("Reshape", ["pooled", "size"], ["flat"], "flatten"),
    ]
    more: dict[str, made.Array] = {
        "one_row": np.array([1, 8], np.int64),
        "nothing": np.zeros((), np.float32),
    }
    frozen = made.conv_model(tmp_path / "frozen.onnx", nodes=nodes, more=more)
    with pytest.raises(Refused, match=r"(?s)fails on a batch of 2 rows.*example batch of 2"):
        checked(tmp_path, frozen, sample)


def test_a_model_for_one_row_may_have_its_batch_fixed(tmp_path: Path, sample: Path) -> None:
    frozen = made.conv_model(tmp_path / "frozen.onnx", batch=1)
    signature = made.SIGNATURE.model_copy(
        update={"outputs": (TensorSpec(name="scores", dtype=Dtype.FP32, shape=(1, 4)),)}
    )
    assert not checked(tmp_path, frozen, sample, signature, max_rows=1).batchable


def test_rows_that_see_each_other_are_never_batched(tmp_path: Path, sample: Path) -> None:
    nodes = made.conv_nodes()[:-1]
    nodes += [
        helper.make_node("ReduceMax", ["logits"], ["top"], "top", axes=[0], keepdims=1),
        helper.make_node("Sub", ["logits", "top"], ["shifted"], "shift"),
        helper.make_node("Softmax", ["shifted"], ["scores"], "softmax", axis=1),
    ]
    model = made.conv_model(tmp_path / "mixed.onnx", nodes=nodes)
    found = checked(tmp_path, model, sample)
    assert not found.batchable
    assert "never batched" in " ".join(found.warnings)


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "told"),
    [
        ("picture", Dtype.FP32, ("batch", 1, 12, 12), "names inputs 'picture'"),
        ("image", Dtype.INT32, ("batch", 1, 12, 12), r"INT32.*by the contract and FP32"),
        ("image", Dtype.FP32, ("batch", 12, 12), r"by the contract and FP32\[batch, 1, 12, 12\]"),
        ("image", Dtype.FP32, ("batch", 1, 12, 16), "axis 3 of input 'image' is 16"),
        ("image", Dtype.FP32, ("batch", 1, 12, "width"), r"axis 3 \(width\).*dynamic_axes"),
    ],
)
def test_a_contract_that_is_not_the_models_is_refused(
    tmp_path: Path,
    model: Path,
    sample: Path,
    name: str,
    dtype: Dtype,
    shape: tuple[int | str, ...],
    told: str,
) -> None:
    wrong = made.SIGNATURE.model_copy(update={"inputs": (TensorSpec(name=name, dtype=dtype, shape=shape),)})
    with pytest.raises(Refused, match=told):
        checked(tmp_path, model, sample, wrong)


def test_an_output_that_is_not_there_is_named(tmp_path: Path, model: Path, sample: Path) -> None:
    wrong = made.SIGNATURE.model_copy(
        update={"outputs": (TensorSpec(name="classes", dtype=Dtype.FP32, shape=("batch", 4)),)}
    )
    with pytest.raises(Refused, match=r"output 'classes', and the model has 'scores'"):
        checked(tmp_path, model, sample, wrong)


def test_a_graph_that_breaks_the_standard_is_refused(tmp_path: Path, sample: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["nowhere"], ["scores"])],
        "broken",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 12, 12])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])],
    )
    with pytest.raises(Refused, match="breaks the ONNX standard"):
        checked(tmp_path, made.save(graph, tmp_path / "broken.onnx"), sample)
