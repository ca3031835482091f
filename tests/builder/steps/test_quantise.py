"""Calibration and INT8: what is quantised, what is not, and what can't be."""

from pathlib import Path

import numpy as np
import orjson
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.data.samples import Sample, write_samples
from builder.graphs.walks import operators, read_graph
from builder.search.rules import CALIBRATORS
from builder.steps import calibrate, quantise
from builder.steps.calibrate import CalibrateParameters
from builder.steps.quantise import Mode, QuantiseParameters, QuantiseResult
from builder.steps.step import Refused, perform
from registry.contract.recipes import Int8Options
from tests.builder import made


def calibrated(
    tmp_path: Path, model: Path, rows: list[made.Array], int8: Int8Options = Int8Options()
) -> Path:
    folder = made.raw_set(
        tmp_path / "cal", [made.raw_image(row) for row in rows], [None] * len(rows), kind="calibration"
    )
    parameters = CalibrateParameters(
        target="ort.cpu",
        signature=made.SIGNATURE,
        pipeline=made.CONTRACT.pipeline,
        operators=int8.operators,
        exclude_nodes=int8.exclude_nodes,
        calibrators=CALIBRATORS,
    )
    perform(calibrate.STEP, parameters, {"model": model, "rows": folder}, tmp_path / "ranges")
    return tmp_path / "ranges"


def quantised(
    tmp_path: Path,
    model: Path,
    sample: Path,
    mode: Mode,
    int8: Int8Options = Int8Options(),
    target: str = "ort.cpu",
) -> QuantiseResult:
    inputs = {"model": model, "sample": sample}
    if mode == "static":
        inputs["ranges"] = tmp_path / "ranges/ranges.json"
    parameters = QuantiseParameters(target=target, mode=mode, int8=int8)
    return perform(quantise.STEP, parameters, inputs, tmp_path / mode)


def test_ranges_cover_what_the_rows_hold(tmp_path: Path, model: Path) -> None:
    rows = made.images(20)
    ranges = orjson.loads((calibrated(tmp_path, model, rows) / "ranges.json").read_bytes())["minmax"]
    assert set(ranges) == {"image", "maps"}
    assert ranges["image"] == [min(row.min() for row in rows), max(row.max() for row in rows)]


def test_ranges_do_not_depend_on_the_order_of_rows(tmp_path: Path, model: Path) -> None:
    rows = made.images(20)
    first = (calibrated(tmp_path, model, rows) / "ranges.json").read_bytes()
    again = calibrated(tmp_path / "again", model, rows[::-1])
    assert (again / "ranges.json").read_bytes() == first
    assert (again / "calibrated.txt").read_text() == (tmp_path / "ranges/calibrated.txt").read_text()


def test_a_row_with_infinity_is_named(tmp_path: Path, model: Path) -> None:
    rows = made.images(3)
    rows[1][0, 0, 5, 5] = 1e30
    huge = np.full((8, 1, 3, 3), 1e30, np.float32)
    large = made.conv_model(tmp_path / "large.onnx", more={"kernel": huge})
    with pytest.raises(Refused, match=r"'maps' holds NaN or infinity on row 'row-00001'"):
        calibrated(tmp_path, large, rows)


def test_static_int8_takes_convolutions_only_unless_told_otherwise(
    tmp_path: Path, model: Path, sample: Path
) -> None:
    calibrated(tmp_path, model, made.images(20))
    found = quantised(tmp_path, model, sample, "static")
    assert (found.operators, found.quantised) == (("Conv",), ("conv",))
    graph = read_graph(tmp_path / "static/engine.onnx")
    (kernel,) = [one for one in graph.graph.initializer if one.name == "kernel_quantized"]
    scales = [one for one in graph.graph.initializer if one.name == "kernel_scale"]
    assert kernel.data_type == TensorProto.INT8
    assert numpy_helper.to_array(scales[0]).shape == (8,)
    assert [one.name for one in graph.graph.initializer if one.name.startswith("dense")] == [
        "dense",
        "dense_bias",
    ]


def test_operators_are_chosen_by_the_recipe(tmp_path: Path, model: Path, sample: Path) -> None:
    int8 = Int8Options(operators=("Conv", "Gemm"))
    calibrated(tmp_path, model, made.images(20), int8)
    assert quantised(tmp_path, model, sample, "static", int8).quantised == ("conv", "dense")


def test_excluded_nodes_stay_and_are_reported(tmp_path: Path, model: Path, sample: Path) -> None:
    int8 = Int8Options(operators=("Conv", "Gemm"), exclude_nodes=("dense",))
    calibrated(tmp_path, model, made.images(20), int8)
    found = quantised(tmp_path, model, sample, "static", int8)
    assert (found.quantised, found.excluded) == (("conv",), ("dense",))


def test_quantising_twice_gives_the_same_bytes(tmp_path: Path, model: Path, sample: Path) -> None:
    calibrated(tmp_path, model, made.images(20))
    quantised(tmp_path, model, sample, "static")
    first = (tmp_path / "static/engine.onnx").read_bytes()
    quantised(tmp_path, model, sample, "static")
    assert (tmp_path / "static/engine.onnx").read_bytes() == first


def test_an_unknown_excluded_node_is_named_beside_those_there_are(tmp_path: Path, model: Path) -> None:
    int8 = Int8Options(exclude_nodes=("head",))
    with pytest.raises(Refused, match=r"names 'head'.*conv"):
        calibrated(tmp_path, model, made.images(2), int8)


def test_nothing_to_quantise_is_refused_with_what_there_is(tmp_path: Path, model: Path) -> None:
    with pytest.raises(Refused, match=r"no MatMul that isn't excluded.*it has .*Conv"):
        calibrated(tmp_path, model, made.images(2), Int8Options(operators=("MatMul",)))


def test_static_without_ranges_is_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    parameters = QuantiseParameters(target="ort.cpu", mode="static", int8=Int8Options())
    with pytest.raises(Refused, match="calibration set"):
        perform(quantise.STEP, parameters, {"model": model, "sample": sample}, tmp_path / "out")


def test_dynamic_int8_needs_no_rows(tmp_path: Path, sample: Path) -> None:
    nodes = made.conv_nodes()
    nodes[4] = helper.make_node("MatMul", ["flat", "dense"], ["logits"], "dense")
    model = made.conv_model(tmp_path / "matmul.onnx", nodes=nodes)
    found = quantised(tmp_path, model, sample, "dynamic", Int8Options(operators=("MatMul",)))
    assert found.quantised == ("dense",)
    assert operators(read_graph(tmp_path / "dynamic/engine.onnx"))["MatMulInteger"] == 1


def test_a_graph_without_convolutions_is_quantised_at_its_multiplications(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["image", "w"], ["scores"])],
        "plain",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 12, 12])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 1, 12, 4])],
        [numpy_helper.from_array(np.ones((12, 4), np.float32), "w")],
    )
    model = made.save(graph, tmp_path / "plain.onnx")
    write_samples(tmp_path / "s.npz", [Sample("row", {"image": made.images(1)[0]})])
    calibrated(tmp_path, model, made.images(4))
    found = quantised(tmp_path, model, tmp_path / "s.npz", "static")
    assert found.operators == ("Gemm", "MatMul")
    assert found.quantised == ("MatMul_0",)


def test_every_calibrator_has_ranges_within_those_of_minmax_and_says_what_it_clips(
    tmp_path: Path, model: Path
) -> None:
    rows = made.images(40)
    rows[7] = rows[7].copy()
    rows[7][0, 0, 3, 3] = 60.0  # an outlier that stretches minmax
    found = orjson.loads((calibrated(tmp_path, model, rows) / "ranges.json").read_bytes())
    assert set(found) == set(CALIBRATORS)
    assert found["minmax"]["image"][1] == 60.0
    assert found["entropy"]["image"][1] < 30
    for calibrator in CALIBRATORS:
        low, high = found[calibrator]["image"]
        assert found["minmax"]["image"][0] <= low < 0 < high <= 60, calibrator
    report = perform(
        calibrate.STEP,
        CalibrateParameters(
            target="ort.cpu",
            signature=made.SIGNATURE,
            pipeline=made.CONTRACT.pipeline,
            calibrators=("minmax", "percentile"),
            percentile=99.9,
        ),
        {"model": model, "rows": tmp_path / "cal"},
        tmp_path / "again",
    ).reports
    assert report[0].clipped == 0 and report[0].worst == ()
    assert 0 < report[1].clipped <= 0.001
    assert {one.tensor for one in report[1].worst} <= {"image", "maps"}


def test_a_file_for_tensorrt_is_signed_symmetric_and_keeps_its_biases(
    tmp_path: Path, model: Path, sample: Path
) -> None:
    calibrated(tmp_path, model, made.images(20))
    kinds: dict[str, tuple[set[int], set[int], list[str]]] = {}
    for target in ("ort.cpu", "tensorrt.sm_90"):
        quantised(tmp_path, model, sample, "static", target=target)
        graph = read_graph(tmp_path / "static/engine.onnx").graph
        stored = {one.name: one for one in graph.initializer}
        zeros = [
            numpy_helper.to_array(stored[node.input[2]])
            for node in graph.node
            if node.op_type == "QuantizeLinear"
        ]
        kinds[target] = (
            {helper.np_dtype_to_tensor_dtype(one.dtype) for one in zeros},
            {int(one.max()) for one in zeros},
            [name for name, one in stored.items() if one.data_type == TensorProto.INT32],
        )
    assert kinds["tensorrt.sm_90"][:2] == ({TensorProto.INT8}, {0})
    assert kinds["tensorrt.sm_90"][2] == []
    assert kinds["ort.cpu"][0] == {TensorProto.UINT8}
    assert kinds["ort.cpu"][2]


def test_scales_per_tensor_are_one_number(tmp_path: Path, model: Path, sample: Path) -> None:
    calibrated(tmp_path, model, made.images(20))
    quantised(tmp_path, model, sample, "static", Int8Options(per_channel=False))
    graph = read_graph(tmp_path / "static/engine.onnx").graph
    assert [numpy_helper.to_array(one).size for one in graph.initializer if one.name == "kernel_scale"] == [1]
