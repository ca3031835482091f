"""The blame falls on the operator that was ruined, wherever it stands, and on none that passes it on."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from builder.data.samples import Sample, write_samples
from builder.steps import bisect
from builder.steps.bisect import BisectParameters, BisectResult
from builder.steps.step import perform
from tests.builder import made

LAYERS = 5
RUINED = 2


def chain(path: Path, ruined: bool = False) -> Path:
    """Five layers on x[n, 16]; one of them with coarse weights where `ruined`."""
    generator = np.random.default_rng(8)
    nodes, stored, last = [], [], "x"
    for at in range(LAYERS):
        weights = generator.standard_normal((16, 16)).astype(np.float32) / 4
        if ruined and at == RUINED:
            weights = np.rint(weights / 0.6) * np.float32(0.6)
        elif ruined:
            weights = weights + 1e-4 * np.float32(1)
        stored.append(numpy_helper.from_array(weights.astype(np.float32), f"w{at}"))
        nodes += [
            helper.make_node("MatMul", [last, f"w{at}"], [f"h{at}"], f"layer{at}"),
            helper.make_node("Relu", [f"h{at}"], [f"a{at}"], f"relu{at}"),
        ]
        last = f"a{at}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, ["n", 16])],
        stored,
    )
    return made.save(graph, path)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    tensors = np.random.default_rng(9).standard_normal((6, 1, 16)).astype(np.float32)
    write_samples(tmp_path / "x.npz", [Sample(f"row-{at}", {"x": one}) for at, one in enumerate(tensors)])
    return tmp_path / "x.npz"


def bisected(
    tmp_path: Path, model: Path, engine: Path, rows: Path, nodes: tuple[str, ...] = ()
) -> BisectResult:
    parameters = BisectParameters(target="ort.cpu", nodes=nodes)
    inputs = {"model": model, "engine": engine, "sample": rows}
    return perform(bisect.STEP, parameters, inputs, tmp_path / "bisect")


def test_the_ruined_layer_is_named_and_confirmed(tmp_path: Path, rows: Path) -> None:
    engine = chain(tmp_path / "engine.onnx", ruined=True)
    found = bisected(tmp_path, chain(tmp_path / "model.onnx"), engine, rows)
    assert (found.node, found.operator, found.confirmed) == (f"layer{RUINED}", "MatMul", True)
    assert found.ranking[0].node == f"layer{RUINED}"
    assert found.ranking[1].error < found.ranking[0].error / 100
    # What comes behind is off too, and adds nothing itself.
    assert {one.node: one.error for one in found.ranking}[f"relu{RUINED}"] == 0
    assert found.says.startswith(f"MatMul 'layer{RUINED}' explains it")


def test_it_comes_as_a_model_of_its_own_that_shows_the_error(tmp_path: Path, rows: Path) -> None:
    engine = chain(tmp_path / "engine.onnx", ruined=True)
    found = bisected(tmp_path, chain(tmp_path / "model.onnx"), engine, rows)
    part = onnx.load(str(tmp_path / "bisect/culprit.onnx"))
    assert [node.name for node in part.graph.node] == [f"layer{RUINED}"]
    session = onnxruntime.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"])
    with np.load(tmp_path / "bisect/culprit.npz", allow_pickle=False) as stored:
        feeds = {str(name): stored[f"input.{at}"] for at, name in enumerate(stored["names"])}
        (got,) = session.run(None, feeds)
        off = ((got - stored["wanted"]) ** 2).sum() / (stored["wanted"] ** 2).sum()
    assert found.local_sqnr_db is not None
    assert abs(-10 * np.log10(off) - found.local_sqnr_db) < 6


def test_without_one_to_blame_it_says_so(tmp_path: Path, rows: Path) -> None:
    model = chain(tmp_path / "model.onnx")
    found = bisected(tmp_path, model, model, rows)
    assert not found.confirmed
    assert "no operator explains it alone" in found.says


def test_a_head_whose_scores_drown_beside_its_coordinates_comes_first(tmp_path: Path) -> None:
    """One scale for coordinates up to 640 and scores up to 1: every score is exactly 0, and the noise
    is small beside the signal."""
    model = detector(tmp_path / "model.onnx")
    engine = detector(tmp_path / "engine.onnx", shared_scale=True)
    boxes = np.random.default_rng(3).uniform(0, 1, (6, 1, 8, 4, 4)).astype(np.float32)
    write_samples(tmp_path / "x.npz", [Sample(f"row-{at}", {"x": one}) for at, one in enumerate(boxes)])
    found = bisected(tmp_path, model, engine, tmp_path / "x.npz", ("body", "head"))
    assert [one.node for one in found.ranking] == ["head", "body"]
    assert found.local_sqnr_db is not None and found.local_sqnr_db > 30
    assert found.ranking[0].error > 0.4


def detector(path: Path, shared_scale: bool = False) -> Path:
    """x[1, 8, 4, 4] → coordinates (0 … 640) and scores (0 … 1), joined along the channels by `head`."""
    weights = np.random.default_rng(2).uniform(0, 0.25, (8, 8, 1, 1)).astype(np.float32)
    scale = np.full((1, 8, 1, 1), 160, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["maps"], "body", kernel_shape=[1, 1]),
        helper.make_node("Mul", ["maps", "scale"], ["boxes"], "boxes"),
        helper.make_node("Sigmoid", ["maps"], ["scores"], "scores"),
        helper.make_node("Concat", ["boxes", "scores"], ["joined"], "head", axis=1),
    ]
    last = "joined"
    more = {"weights": weights, "scale": scale}
    if shared_scale:
        more |= {"step": np.array(640 / 255, np.float32), "zero": np.array(0, np.uint8)}
        nodes += [
            helper.make_node("QuantizeLinear", ["joined", "step", "zero"], ["levels"], "q"),
            helper.make_node("DequantizeLinear", ["levels", "step", "zero"], ["rounded"], "dq"),
        ]
        last = "rounded"
    nodes.append(helper.make_node("Identity", [last], ["found"], "out"))
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 8, 4, 4])],
        [helper.make_tensor_value_info("found", onnx.TensorProto.FLOAT, ["n", 16, 4, 4])],
        [numpy_helper.from_array(array, name) for name, array in more.items()],
    )
    return made.save(graph, path)
