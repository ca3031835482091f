from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from serving.runtimes.errors import NotAModel, ProviderUnavailable
from serving.runtimes.onnxruntime import OnnxRuntime
from serving.runtimes.protocol import Device, LoadOptions
from tests.serving import tiny_models


def test_a_cuda_request_never_runs_on_the_cpu(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this environment has the CUDA provider: the refusal can't be provoked here")
    with pytest.raises(ProviderUnavailable, match=r"CUDAExecutionProvider.*CPUExecutionProvider"):
        OnnxRuntime().load(tiny_models.classifier(tmp_path / "c.onnx"), Device("cuda"), LoadOptions())


def test_unnamed_dimensions_get_names_of_their_own(tmp_path: Path) -> None:
    path = tiny_models.adder(tmp_path / "a.onnx")
    model = onnx.load(path)
    for value in model.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            dimension.Clear()
    path.write_bytes(model.SerializeToString())
    engine = OnnxRuntime().load(path, Device("cpu"), LoadOptions())
    assert [spec.shape for spec in engine.signature.inputs] == [("a.0", "a.1"), ("b.0", "b.1")]
    engine.close()


def test_weights_beside_the_file_are_found(tmp_path: Path) -> None:
    path = tiny_models.heavy(tmp_path / "h.onnx", megabytes=1)
    model = onnx.load(path)
    onnx.save(
        model,
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="w.bin",
        size_threshold=0,
    )
    assert path.stat().st_size < 10_000
    engine = OnnxRuntime().load(path, Device("cpu"), LoadOptions())
    y = engine.infer({"x": np.ones((1, 1024), np.float32)})["y"]
    assert y[0, 5] == 1023 + 5
    engine.close()


def test_outputs_that_are_no_tensors_are_refused_with_the_remedy(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("SequenceConstruct", ["x"], ["y"])],
        "sequence",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "s.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NotAModel, match=r"'y' is seq.*cast it in the graph"):
        OnnxRuntime().load(path, Device("cpu"), LoadOptions())


@pytest.mark.parametrize("level", ["disabled", "basic", "extended", "all"])
def test_every_level_of_graph_optimisation_gives_the_same_answer(tmp_path: Path, level: str) -> None:
    weights = np.random.default_rng(3).standard_normal((8, 2, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8, 16])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "conv.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.random.default_rng(4).standard_normal((3, 2, 16)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
    wanted = np.maximum(np.einsum("bcsk,ock->bos", windows, weights), 0)
    engine = OnnxRuntime().load(path, Device("cpu"), LoadOptions(graph_optimisation=level))
    np.testing.assert_allclose(engine.infer({"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)
    engine.close()
