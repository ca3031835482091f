"""Pruning: the smallest weights go, as many as asked for, and never more than the answers bear."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from builder.steps import prune
from builder.steps.prune import PruneParameters, PruneResult
from builder.steps.step import Refused, perform
from registry.contract.recipes import PruneOptions
from tests.builder import made


def pruned(
    tmp_path: Path, model: Path, sample: Path, options: PruneOptions, least_db: float = -99
) -> PruneResult:
    parameters = PruneParameters(target="ort.cpu", options=options, min_cosine=0.5, min_sqnr_db=least_db)
    return perform(prune.STEP, parameters, {"model": model, "sample": sample}, tmp_path / "pruned")


def test_the_smallest_of_each_layer_go(tmp_path: Path, model: Path, sample: Path) -> None:
    found = pruned(tmp_path, model, sample, PruneOptions(sparsity=0.25)).report
    after = {
        one.name: numpy_helper.to_array(one)
        for one in onnx.load(str(tmp_path / "pruned/model.onnx")).graph.initializer
    }
    for name in ("kernel", "dense"):
        before = made.weights()[name]
        gone = after[name] == 0
        assert gone.sum() == before.size // 4
        assert np.abs(before[gone]).max() <= np.abs(before[~gone]).min()
        assert (after[name][~gone] == before[~gone]).all()
    assert (after["kernel_bias"] == made.weights()["kernel_bias"]).all()
    assert (found.sparsity, found.layers, found.weights) == (0.25, 2, 72 + 32)


def test_equal_magnitudes_do_not_all_go_at_once(tmp_path: Path, sample: Path) -> None:
    model = made.conv_model(tmp_path / "even.onnx", more={"dense": np.ones((8, 4), np.float32)})
    options = PruneOptions(sparsity=0.5, operators=("Gemm",))
    assert pruned(tmp_path, model, sample, options).report.sparsity == 0.5


def test_layers_can_be_left_out(tmp_path: Path, model: Path, sample: Path) -> None:
    options = PruneOptions(sparsity=0.5, exclude_nodes=("conv",))
    assert pruned(tmp_path, model, sample, options).report.layers == 1


def test_its_gate_refuses_what_changes_the_answers(tmp_path: Path, model: Path, sample: Path) -> None:
    with pytest.raises(Refused, match=r"pruning changes the answers: 9\d% .* lower prune.sparsity"):
        pruned(tmp_path, model, sample, PruneOptions(sparsity=0.95), least_db=20)
