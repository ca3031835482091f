"""Regressors and detectors: judged on validation rows, watched by value and count, with edges from there."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image as Pillow

from builder.steps import judge, validate
from builder.steps.judge import JudgeParameters
from builder.steps.step import perform
from builder.steps.validate import ValidateParameters, ValidateResult
from registry.contract.pipeline import Column, Ctc, Detect, Image, PipelineSpec, Regress, Resize, Table
from registry.contract.versions import (
    DatasetRef,
    Dtype,
    Observable,
    Signature,
    TensorSpec,
    VersionContract,
)
from tests.builder import made
from tests.serving import tiny_models

SIDE, CELLS = 32, 4
GENERATOR = np.random.default_rng(12)


def validated(
    folder: Path,
    model: Path,
    contract: VersionContract,
    raws: list[bytes],
    labels: Sequence[str | None] = (),
) -> ValidateResult:
    rows = made.raw_set(folder / "rows", raws, labels or [None] * len(raws))
    perform(
        judge.STEP,
        JudgeParameters(target="ort.cpu", contract=contract, batchable=True, threads=1),
        {"model": model, "rows": rows},
        folder / "judge",
    )
    parameters = ValidateParameters(
        target="ort.cpu",
        contract=contract,
        dataset=DatasetRef(name="rows", version=1),
        form="raw",
        max_loss=0.05,
        batchable=True,
        threads=1,
    )
    inputs = {"engine": model, "rows": rows, "judgements": folder / "judge/judgements.jsonl"}
    return perform(validate.STEP, parameters, inputs, folder / "validate")


def prices(path: Path) -> tuple[Path, VersionContract]:
    """price = 1000 · (2 · size − age)."""
    weights = np.array([[2.0], [-1.0]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "prices",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(weights, "weights")],
    )
    contract = VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 2)),),
            outputs=(TensorSpec(name="y", dtype=Dtype.FP32, shape=("batch", 1)),),
        ),
        pipeline=PipelineSpec(
            pre=(Table(output="x", columns=(Column(name="size"), Column(name="age", missing=0))),),
            post=(Regress(output="y", field="price", scale=1000),),
        ),
        observables=(
            Observable(name="price", kind="value", source="price"),
            Observable(name="dear", kind="value", source="price", edges=(0, 5000)),
        ),
    )
    return made.save(graph, path), contract


def houses(count: int) -> tuple[list[bytes], made.Array]:
    """Raw rows and their prices."""
    sizes, ages = GENERATOR.uniform(1, 9, count), GENERATOR.uniform(0, 5, count)
    raws = [json.dumps({"size": s, "age": a}).encode() for s, a in zip(sizes, ages, strict=True)]
    return raws, 1000 * (2 * sizes - ages)


def test_a_regressor_from_columns_to_binned_values(tmp_path: Path) -> None:
    model, contract = prices(tmp_path / "model.onnx")
    raws, values = houses(200)
    found = validated(tmp_path, model, contract, raws)
    assert (found.report.rows, found.report.outcome) == (200, "accepted")
    price, dear = found.references
    assert len(price.edges) == 31 and sum(price.counts) == 200
    # Edges are quantiles of the reference, so that its bins are even.
    assert max(price.counts) - min(price.counts) <= 2
    assert np.searchsorted(np.sort(values), price.edges[15]) in (99, 100, 101)
    assert dear.edges == (0, 5000)
    assert dear.counts == (sum(values < 0), sum((values >= 0) & (values < 5000)), sum(values >= 5000))


def lamps(path: Path) -> tuple[Path, VersionContract]:
    """A candidate box for each cell of the picture, its score the cell's brightness."""
    contract = VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 1, SIDE, SIDE)),),
            outputs=(
                TensorSpec(name="boxes", dtype=Dtype.FP32, shape=("batch", CELLS**2, 4)),
                TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", CELLS**2, 1)),
            ),
        ),
        pipeline=PipelineSpec(
            pre=(
                Image(
                    output="image",
                    colour="grey",
                    resize=Resize(width=SIDE, height=SIDE, interpolation="nearest"),
                    scale=1 / 255,
                ),
            ),
            post=(Detect(boxes="boxes", scores="scores", labels=("lamp",), threshold=0.5),),
        ),
        observables=(
            Observable(name="lamps", kind="count", source="count"),
            Observable(name="best", kind="score", source="score"),
        ),
    )
    return tiny_models.cells(path, SIDE, CELLS), contract


def nights(count: int) -> tuple[list[bytes], list[list[list[int]]]]:
    """Pictures of twice the model's size, and the boxes of their lamps."""
    raws, boxes = [], []
    wide = 2 * SIDE // CELLS
    for _ in range(count):
        cells = GENERATOR.uniform(0, 1, (CELLS, CELLS)) > 0.7
        stream = io.BytesIO()
        Pillow.fromarray(np.kron(cells, np.full((wide, wide), 230)).astype(np.uint8)).save(stream, "PNG")
        raws.append(stream.getvalue())
        places = [(int(x) * wide, int(y) * wide) for y, x in np.argwhere(cells)]
        boxes.append([[x, y, x + wide, y + wide] for x, y in places])
    return raws, boxes


def test_a_detector_from_pictures_to_binned_counts(tmp_path: Path) -> None:
    model, contract = lamps(tmp_path / "model.onnx")
    raws, boxes = nights(120)
    lit = [len(one) for one in boxes]
    found = validated(tmp_path, model, contract, raws)
    assert (found.report.rows, found.report.flips) == (120, 0)
    count, best = found.references
    assert count.edges and list(count.edges) == sorted(set(count.edges))
    assert count.counts[0] == sum(one < count.edges[0] for one in lit)
    assert sum(count.counts) == sum(best.counts) == 120
    assert best.counts[int(230 / 255 * 64)] == sum(one > 0 for one in lit)


def reader(path: Path) -> tuple[Path, VersionContract]:
    """Steps of three numbers → the text of the greatest one of each step; 0 is the blank."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["ink", "mix"], ["scores"])],
        "reader",
        [helper.make_tensor_value_info("ink", TensorProto.FLOAT, ["batch", "steps", 3])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "steps", 3])],
        [numpy_helper.from_array(np.eye(3, dtype=np.float32), "mix")],
    )
    contract = VersionContract(
        signature=Signature(
            inputs=(TensorSpec(name="ink", dtype=Dtype.FP32, shape=("batch", "steps", 3)),),
            outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", "steps", 3)),),
        ),
        pipeline=PipelineSpec(post=(Ctc(output="scores", tokens=("a", "b"), softmax=True),)),
        observables=(Observable(name="letters", kind="length", source="length"),),
    )
    return made.save(graph, path), contract


def test_a_reader_is_judged_by_whole_texts_and_watched_by_length(tmp_path: Path) -> None:
    model, contract = reader(tmp_path / "model.onnx")
    raws, labels = [], []
    for at in range(90):
        classes = [int(one) for step in GENERATOR.integers(1, 3, 1 + at % 4) for one in (step, 0)]
        raws.append(json.dumps({"ink": (4.0 * np.eye(3)[classes]).tolist()}).encode())
        text = "".join(" ab"[one] for one in classes if one)
        labels.append(text if at % 9 else text + "b")
    found = validated(tmp_path, model, contract, raws, labels)
    assert (found.report.metric, found.report.outcome) == ("exact_match", "accepted")
    assert found.report.source_metric == found.report.engine_metric == 80 / 90
    (letters,) = found.references
    assert (letters.kind, sum(letters.counts)) == ("length", 90)
    assert 1 <= letters.edges[0] < letters.edges[-1] <= 4
