"""Pairs recorded by other code than ours: each fault of a pipeline is refused, its first element named."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder.data import pairs
from builder.steps import golden
from builder.steps.golden import GoldenParameters, GoldenResult
from builder.steps.step import Refused, perform
from registry.contract.pipeline import ByteWindow, Classify, PipelineSpec
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made
from tests.builder.made import Array

HEAD, TAIL, PAD = 6, 4, 256
LABELS = ("text", "binary", "empty")
SIGNATURE = Signature(
    inputs=(TensorSpec(name="tokens", dtype=Dtype.INT32, shape=("batch", HEAD + TAIL)),),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", len(LABELS))),),
)
WINDOW = ByteWindow(output="tokens", head=HEAD, tail=TAIL, block=16, pad=PAD)
CLASSES = Classify(output="scores", labels=LABELS)
RAWS = [b"hello world, hello", b"  \n stripped \n", b"\x00\x01\x02\xff", b"", b"x" * 40]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    generator = np.random.default_rng(5)
    weights = generator.standard_normal((HEAD + TAIL, len(LABELS))).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["tokens"], ["floats"], "cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", ["floats", "small"], ["scaled"], "scale"),
            helper.make_node("MatMul", ["scaled", "weights"], ["logits"], "dense"),
            helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
        ],
        "tokens",
        [helper.make_tensor_value_info("tokens", TensorProto.INT32, ["batch", HEAD + TAIL])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", len(LABELS)])],
        [
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(np.array(1 / 256, np.float32), "small"),
        ],
    )
    return made.save(graph, tmp_path / "model.onnx")


def trained_answer(raw: bytes) -> tuple[list[int], Array, dict[str, object]]:
    """What the training side does, written without any of our code."""
    head = list(raw[:16].lstrip()[:HEAD])
    tail = list(raw[-16:].rstrip()[-TAIL:])
    tokens = head + [PAD] * (HEAD - len(head)) + [PAD] * (TAIL - len(tail)) + tail
    weights = np.random.default_rng(5).standard_normal((HEAD + TAIL, len(LABELS))).astype(np.float32)
    logits = (np.array(tokens, np.float32) / 256) @ weights
    scores = np.exp(logits - logits.max())
    scores = (scores / scores.sum()).astype(np.float32)
    best = int(scores.argmax())
    return tokens, scores, {"label": LABELS[best], "score": float(scores[best])}


def tensor(values: Array, dtype: str) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(values.shape), "data": base64.b64encode(values.tobytes()).decode()}


def record(raw: bytes) -> dict[str, Any]:
    tokens, scores, answer = trained_answer(raw)
    return {
        "raw": base64.b64encode(raw).decode(),
        "inputs": {"tokens": tensor(np.array([tokens], "<i4"), "INT32")},
        "outputs": {"scores": tensor(scores[np.newaxis].astype("<f4"), "FP32")},
        "answer": answer,
    }


def proven(
    tmp_path: Path,
    model: Path,
    *,
    window: ByteWindow = WINDOW,
    classes: Classify = CLASSES,
    exact: bool = True,
    change: Callable[[list[dict[str, Any]]], None] | None = None,
) -> GoldenResult:
    recorded = [record(raw) for raw in RAWS]
    if change:
        change(recorded)
    path = tmp_path / "golden.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in recorded))
    parameters = GoldenParameters(
        target="ort.cpu",
        signature=SIGNATURE,
        pipeline=PipelineSpec(pre=(window,), post=(classes,)),
        exact=exact,
        max_abs=1e-4,
        min_cosine=0.98,
        max_flip_rate=0.05,
    )
    return perform(golden.STEP, parameters, {"engine": model, "golden": path}, tmp_path / "out")


@pytest.mark.parametrize("exact", [True, False])
def test_a_faithful_pipeline_passes(tmp_path: Path, model: Path, exact: bool) -> None:
    report = proven(tmp_path, model, exact=exact).report
    assert (report.pairs, report.passed, report.first_difference) == (len(RAWS), True, None)


@pytest.mark.parametrize("exact", [True, False])
def test_a_window_that_is_off_by_one_is_named_at_its_first_token(
    tmp_path: Path, model: Path, exact: bool
) -> None:
    report = proven(tmp_path, model, window=WINDOW.model_copy(update={"offset": 1}), exact=exact).report
    assert not report.passed
    assert report.first_difference == (
        "pair 1, pre-processing, input 'tokens', element [0, 0]: wanted 104, got 101"
    )


def test_another_padding_is_refused_where_it_shows(tmp_path: Path, model: Path) -> None:
    report = proven(tmp_path, model, window=WINDOW.model_copy(update={"pad": 0})).report
    assert report.first_difference
    assert report.first_difference.startswith(
        "pair 3, pre-processing, input 'tokens', element [0, 4]: wanted 256"
    )


@pytest.mark.parametrize("exact", [True, False])
def test_labels_shifted_by_one_are_refused_in_post_processing(
    tmp_path: Path, model: Path, exact: bool
) -> None:
    shifted = CLASSES.model_copy(update={"labels": LABELS[1:] + LABELS[:1]})
    report = proven(tmp_path, model, classes=shifted, exact=exact).report
    assert report.first_difference
    assert "post-processing, answer.label" in report.first_difference


def test_a_forgotten_softmax_is_refused(tmp_path: Path, model: Path) -> None:
    report = proven(tmp_path, model, classes=CLASSES.model_copy(update={"softmax": True})).report
    assert report.first_difference
    assert "answer.score" in report.first_difference


def test_another_engine_is_refused_at_its_first_output(tmp_path: Path, model: Path) -> None:
    def change(pairs: list[dict[str, Any]]) -> None:
        other = np.array([[0.0, 0.0, 1.0]], "<f4")
        pairs[2]["outputs"] = {"scores": tensor(other, "FP32")}

    report = proven(tmp_path, model, change=change).report
    assert report.first_difference
    assert report.first_difference.startswith("pair 3, engine, output 'scores', element [0, 0]: wanted 0.0")


def test_a_ruined_quantised_engine_is_refused_over_all_pairs(tmp_path: Path, model: Path) -> None:
    def change(pairs: list[dict[str, Any]]) -> None:
        for pair in pairs:
            scores = np.frombuffer(base64.b64decode(pair["outputs"]["scores"]["data"]), "<f4")
            pair["outputs"] = {"scores": tensor(np.ascontiguousarray(scores[np.newaxis, ::-1]), "FP32")}
            pair["answer"] = {}

    report = proven(tmp_path, model, exact=False, change=change).report
    assert report.first_difference
    assert report.first_difference.startswith("engine")


def test_a_batch_axis_may_be_left_out_of_a_pair(tmp_path: Path, model: Path) -> None:
    def change(pairs: list[dict[str, Any]]) -> None:
        for pair in pairs:
            pair["inputs"]["tokens"]["shape"] = [HEAD + TAIL]

    assert proven(tmp_path, model, change=change).report.passed


def test_a_field_that_ours_does_not_have_is_named(tmp_path: Path, model: Path) -> None:
    def change(pairs: list[dict[str, Any]]) -> None:
        pairs[0]["answer"]["mime"] = "text/plain"

    report = proven(tmp_path, model, change=change).report
    assert report.first_difference
    assert "answer.mime" in report.first_difference


@pytest.mark.parametrize("line", ["not json", "{}", '{"raw": "%%%"}', '{"raw": "", "inputs": {"tokens": 3}}'])
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, model: Path, line: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(Refused, match="line 1 of the golden file"):
        list(pairs.read_pairs(path, SIGNATURE))


def test_no_pairs_at_all_are_refused(tmp_path: Path, model: Path) -> None:
    def change(pairs: list[dict[str, Any]]) -> None:
        pairs.clear()

    with pytest.raises(Refused, match="no pairs"):
        proven(tmp_path, model, change=change)
