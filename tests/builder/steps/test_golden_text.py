"""Texts of every length, alone and together, against the training code: mask and pad side are proven."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.contract.engines import GoldenReport
from registry.contract.pipeline import Classify, Padding, PipelineSpec, Tokenise
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.builder import made
from tests.builder.recorded import pair, proven

WORDS = ("<pad>", "<unk>", "the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "more", "dog", "run")
LABELS = ("calm", "wild")
LONGEST, WIDTH = 12, 6
GENERATOR = np.random.default_rng(2)
EMBEDDING = GENERATOR.standard_normal((len(WORDS), WIDTH)).astype(np.float32)
POSITION = GENERATOR.uniform(0.2, 2, (LONGEST, 1)).astype(np.float32)
DENSE = (GENERATOR.standard_normal((WIDTH, 2)) * 2).astype(np.float32)
SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="ids", dtype=Dtype.INT64, shape=("batch", "length")),
        TensorSpec(name="mask", dtype=Dtype.INT64, shape=("batch", "length")),
    ),
    outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 2)),),
)
TEXTS = [
    " ".join(WORDS[2 + (at * 5 + step) % 12] for step in range(at))
    for at in (1, 12, 2, 11, 3, 10, 4, 9, 5, 8, 6, 7)
]


def model(path: Path, *, masked: bool = True) -> Path:
    """The mean embedding of the tokens that the mask names; each position has its own weight."""
    mask = [helper.make_node("Cast", ["mask"], ["known"], to=TensorProto.FLOAT)]
    if not masked:
        mask = [
            helper.make_node("Cast", ["mask"], ["casted"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["casted", "zero"], ["nothing"]),
            helper.make_node("Add", ["nothing", "unit"], ["known"]),
        ]
    nodes = [
        *mask,
        helper.make_node("Gather", ["embedding", "ids"], ["vectors"]),
        helper.make_node("Shape", ["ids"], ["length"], start=1, end=2),
        helper.make_node("Slice", ["position", "start", "length", "axis0"], ["weights"]),
        helper.make_node("Mul", ["vectors", "weights"], ["weighted"]),
        helper.make_node("Unsqueeze", ["known", "axis2"], ["column"]),
        helper.make_node("Mul", ["weighted", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "axis1"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["column", "axis1"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "dense"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"], axis=1),
    ]
    stored = {
        "embedding": EMBEDDING,
        "position": POSITION,
        "dense": DENSE,
        "zero": np.zeros((), np.float32),
        "unit": np.ones((), np.float32),
        "start": np.zeros(1, np.int64),
        **{f"axis{at}": np.array([at], np.int64) for at in (0, 1, 2)},
    }
    graph = helper.make_graph(
        nodes,
        "texts",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in ("ids", "mask")
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return made.save(graph, path)


def trained(text: str) -> dict[str, Any]:
    """What the training program does with one text, without any of our code and without padding."""
    ids = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    mean = (EMBEDDING[ids] * POSITION[: len(ids)]).mean(axis=0)
    logits = mean @ DENSE
    scores = np.exp(logits - logits.max())
    scores = (scores / scores.sum()).astype(np.float32)
    best = int(scores.argmax())
    inputs = {"ids": np.array([ids], np.int64), "mask": np.ones((1, len(ids)), np.int64)}
    return pair(text.encode(), inputs, {"scores": scores[np.newaxis]}, {"label": LABELS[best]})


def checked(
    folder: Path, engine: Path, padding: Padding, pairs: list[dict[str, Any]] | None = None
) -> GoldenReport:
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    step = Tokenise(
        tokenizer="vocabulary",
        file="vocab.txt",
        ids="ids",
        mask="mask",
        max_length=LONGEST,
        unknown="<unk>",
        padding=padding,
    )
    return proven(
        folder,
        engine,
        pairs or [trained(text) for text in TEXTS],
        SIGNATURE,
        PipelineSpec(pre=(step,), post=(Classify(output="scores", labels=LABELS),)),
        max_rows=8,
        files=folder,
    )


def test_every_length_alone_and_together_is_the_training_codes(tmp_path: Path) -> None:
    assert sorted(len(text.split()) for text in TEXTS) == list(range(1, LONGEST + 1))
    report = checked(tmp_path, model(tmp_path / "model.onnx"), Padding(masking="mask"))
    assert (report.passed, report.first_difference, report.pairs) == (True, None, LONGEST)


def test_a_dropped_mask_shows_when_lengths_share_a_run(tmp_path: Path) -> None:
    engine = model(tmp_path / "model.onnx", masked=False)
    report = checked(tmp_path, engine, Padding(masking="mask"))
    assert report.first_difference
    assert report.first_difference.startswith(
        "pair 1, in one run with pairs 1 to 8, engine, output 'scores', element [0, "
    )
    assert "the padding rule (masking, side) is not the model's" in report.first_difference
    # A model without a mask is right as long as nothing is mixed, and that is what `none` says.
    assert checked(tmp_path, engine, Padding(masking="none")).passed


def test_the_other_pad_side_is_refused(tmp_path: Path) -> None:
    report = checked(tmp_path, model(tmp_path / "model.onnx"), Padding(masking="mask", side="left"))
    assert report.first_difference
    assert "in one run with pairs 1 to 8, engine, output 'scores'" in report.first_difference


@pytest.mark.parametrize(
    ("padding", "said"),
    [
        (Padding(masking="mask", fixed=True), None),
        (Padding(masking="mask", fixed=True, side="left"), "input 'ids', element [0, 0]: wanted 2, got 0"),
        (Padding(masking="mask", fixed=True, id=1), "input 'ids', element [0, 2]: wanted 0, got 1"),
        (Padding(masking="mask"), "input 'ids': wanted shape [1, 12], got [1, 2]"),
    ],
)
def test_padding_that_training_recorded_is_held_to(
    tmp_path: Path, padding: Padding, said: str | None
) -> None:
    recorded = trained("the cat")
    ids, mask = np.zeros((1, LONGEST), np.int64), np.zeros((1, LONGEST), np.int64)
    ids[0, :2], mask[0, :2] = (2, 3), 1
    filled = pair(b"the cat", {"ids": ids, "mask": mask}, {}) | {"outputs": recorded["outputs"]}
    report = checked(tmp_path, model(tmp_path / "model.onnx"), padding, [filled])
    assert report.first_difference == (said and f"pair 1, pre-processing, {said}")


def test_a_text_that_ends_otherwise_is_another_input(tmp_path: Path) -> None:
    recorded = trained("the cat sat")
    recorded["raw"] = trained("the cat mat")["raw"]
    report = checked(tmp_path, model(tmp_path / "model.onnx"), Padding(masking="mask"), [recorded])
    assert report.first_difference == "pair 1, pre-processing, input 'ids', element [0, 2]: wanted 4, got 7"
