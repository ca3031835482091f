"""Real engines beside their source: an honest one, a ruined one, one that sees its batch mates."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from builder.judgement import gates
from builder.steps import parity
from builder.steps.parity import ParityParameters, ParityResult
from builder.steps.step import Refused, perform
from registry.contract.engines import GateOutcome
from registry.contract.recipes import Tolerances
from tests.builder import made


def compared(tmp_path: Path, source: Path, engine: Path, sample: Path, max_rows: int = 32) -> ParityResult:
    parameters = ParityParameters(target="ort.cpu", max_rows=max_rows, classes="scores")
    inputs = {"source": source, "engine": engine, "sample": sample}
    return perform(parity.STEP, parameters, inputs, tmp_path / "parity")


def outcome(result: ParityResult) -> GateOutcome:
    return gates.parity_gate(result.report, Tolerances()).outcome


def test_a_model_agrees_with_itself(tmp_path: Path, model: Path, sample: Path) -> None:
    found = compared(tmp_path, model, model, sample)
    assert found.report.outputs[0].sqnr_db is None
    assert (found.report.flips, found.report.rows, found.batchable) == (0, 24, True)
    assert {shape[0] for shape in found.report.shapes} >= {1, 2, 3, 5}
    assert found.input_shapes == {"image": ("batch", 1, 12, 12)}
    assert outcome(found) is GateOutcome.PASSED


def test_other_weights_are_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    ruined = made.conv_model(tmp_path / "ruined.onnx", more={"dense": -made.weights()["dense"]})
    found = compared(tmp_path, model, ruined, sample)
    assert (found.report.flips or 0) > 10
    assert found.report.worst_rows
    assert outcome(found) is GateOutcome.FAILED


def test_an_engine_that_always_gives_zero_is_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    nodes = made.conv_nodes()[:-1]
    nodes += [
        helper.make_node("Softmax", ["logits"], ["soft"], "softmax", axis=1),
        helper.make_node("Mul", ["soft", "nothing"], ["scores"], "nothing"),
    ]
    zero = made.conv_model(tmp_path / "zero.onnx", nodes=nodes, more={"nothing": np.zeros(1, np.float32)})
    found = compared(tmp_path, model, zero, sample)
    assert found.report.outputs[0].constant
    assert outcome(found) is GateOutcome.FAILED


def test_an_engine_that_gives_nan_is_refused(tmp_path: Path, model: Path, sample: Path) -> None:
    ruined = made.conv_model(tmp_path / "nan.onnx", more={"dense_bias": np.full(4, np.inf, np.float32)})
    found = compared(tmp_path, model, ruined, sample)
    assert not found.report.outputs[0].finite
    assert outcome(found) is GateOutcome.FAILED


def test_an_engine_that_sees_its_batch_mates_is_never_batched(
    tmp_path: Path, model: Path, sample: Path
) -> None:
    nodes = made.conv_nodes()[:-1]
    nodes += [
        helper.make_node("ReduceMax", ["logits"], ["top"], "top", axes=[0], keepdims=1),
        helper.make_node("Sub", ["logits", "top"], ["shifted"], "shift"),
        helper.make_node("Softmax", ["shifted"], ["scores"], "softmax", axis=1),
    ]
    mixed = made.conv_model(tmp_path / "mixed.onnx", nodes=nodes)
    found = compared(tmp_path, mixed, mixed, sample)
    assert not found.report.batch_invariant
    assert not found.batchable
    assert found.report.batch_max_abs > 0.01
    assert compared(tmp_path, mixed, mixed, sample, max_rows=1).report.batch_invariant


def test_an_engine_that_fails_on_a_row_names_the_row(tmp_path: Path, model: Path, sample: Path) -> None:
    nodes = made.conv_nodes()
    nodes[3:4] = [
        helper.make_node("Flatten", ["pooled"], ["all"], "flatten"),
        helper.make_node("ArgMax", ["all"], ["at"], "at", axis=1, keepdims=0),
        helper.make_node("Add", ["at", "far"], ["beyond"], "beyond"),
        helper.make_node("Gather", ["all", "beyond"], ["flat"], "gather", axis=0),
    ]
    broken = made.conv_model(tmp_path / "broken.onnx", nodes=nodes, more={"far": np.array([99], np.int64)})
    with pytest.raises(Refused, match="engine fails on row 'row-0'"):
        compared(tmp_path, model, broken, sample)
