"""Regressors and detectors: judged on validation rows, watched by value and count, with edges from there."""

import io
import json
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image as Pillow

from builder.steps import judge, validate
from builder.steps.judge import JudgeParameters
from builder.steps.step import perform
from builder.steps.validate import ValidateParameters, ValidateResult
from registry.contract.pipeline import Column, Detect, Image, PipelineSpec, Regress, Resize, Table
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


def validated(folder: Path, model: Path, contract: VersionContract, raws: list[bytes]) -> ValidateResult:
    rows = made.raw_set(folder / "rows", raws, [None] * len(raws))
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


def test_a_regressor_from_columns_to_binned_values(tmp_path: Path) -> None:
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
    sizes, ages = GENERATOR.uniform(1, 9, 200), GENERATOR.uniform(0, 5, 200)
    raws = [json.dumps({"size": s, "age": a}).encode() for s, a in zip(sizes, ages, strict=True)]
    found = validated(tmp_path, made.save(graph, tmp_path / "model.onnx"), contract, raws)
    assert (found.report.rows, found.report.outcome) == (200, "accepted")
    price, dear = found.references
    assert len(price.edges) == 31 and sum(price.counts) == 200
    # Edges are quantiles of the reference, so that its bins are even.
    assert max(price.counts) - min(price.counts) <= 2
    values = 1000 * (2 * sizes - ages)
    assert np.searchsorted(np.sort(values), price.edges[15]) in (99, 100, 101)
    assert dear.edges == (0, 5000)
    assert dear.counts == (sum(values < 0), sum((values >= 0) & (values < 5000)), sum(values >= 5000))


def test_a_detector_from_pictures_to_binned_counts(tmp_path: Path) -> None:
    """A candidate box for each cell of the picture, its score the cell's brightness."""
    cell = SIDE // CELLS
    model = tiny_models.cells(tmp_path / "model.onnx", SIDE, CELLS)
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
    raws, lit = [], []
    for _ in range(120):
        cells = GENERATOR.uniform(0, 1, (CELLS, CELLS)) > 0.7
        pixels = np.kron(cells, np.full((2 * cell, 2 * cell), 230)).astype(np.uint8)
        stream = io.BytesIO()
        Pillow.fromarray(pixels).save(stream, "PNG")
        raws.append(stream.getvalue())
        lit.append(int(cells.sum()))
    found = validated(tmp_path, model, contract, raws)
    assert (found.report.rows, found.report.flips) == (120, 0)
    lamps, best = found.references
    assert lamps.edges and list(lamps.edges) == sorted(set(lamps.edges))
    assert lamps.counts[0] == sum(one < lamps.edges[0] for one in lit)
    assert sum(lamps.counts) == sum(best.counts) == 120
    assert best.counts[int(230 / 255 * 64)] == sum(one > 0 for one in lit)
