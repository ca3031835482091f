import numpy as np
import pytest

from registry.contract.pipeline import Classify, PipelineSpec, PostStep, Regress, Tensors
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.processing import Postprocess, post

LABELS = ("cat", "dog", "eel")
SIGNATURE = Signature(
    inputs=(),
    outputs=(
        TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),
        TensorSpec(name="price", dtype=Dtype.FP32, shape=("batch", 1)),
    ),
)
GOOD = {
    "scores": np.array([[0.2, 0.7, 0.1], [0.5, 0.5, 0.0]], np.float32),
    "price": np.array([[3.5], [-1]], np.float32),
}


def made(*steps: PostStep) -> Postprocess:
    return post(PipelineSpec(post=steps), SIGNATURE)


def test_classify_takes_the_best_and_the_first_of_equals() -> None:
    answers = made(Classify(output="scores", labels=LABELS))(GOOD, 2)
    assert [(a["label"], a["index"], round(float(str(a["score"])), 6)) for a in answers] == [
        ("dog", 1, 0.7),
        ("cat", 0, 0.5),
    ]
    assert [len(a["top"]) for a in answers] == [1, 1]


def test_top_is_best_first_and_stops_at_the_classes() -> None:
    answers = made(Classify(output="scores", labels=LABELS, top=5))(GOOD, 2)
    assert [entry["label"] for entry in answers[0]["top"]] == ["dog", "cat", "eel"]
    assert [entry["index"] for entry in answers[1]["top"]] == [0, 1, 2]
    assert answers[0]["top"][0] == {key: answers[0][key] for key in ("label", "score", "index")}


def test_without_labels_the_index_is_the_label() -> None:
    assert made(Classify(output="scores"))(GOOD, 2)[0]["label"] == "1"


def test_softmax_makes_scores_of_logits_of_any_size() -> None:
    logits = np.array([[1000.0, 1001.0, 0.0], [-3.0, -3.0, -3.0]], np.float32)
    answers = made(Classify(output="scores", labels=LABELS, softmax=True))({**GOOD, "scores": logits}, 2)
    assert answers[0]["label"] == "dog"
    assert answers[0]["score"] == pytest.approx(1 / (1 + np.exp(-1)), rel=1e-6)
    assert answers[1]["score"] == pytest.approx(1 / 3)


def test_rounding_of_quantised_scores_is_forgiven_and_cut() -> None:
    scores = np.array([[1.0005, -0.0005, 0.0]], np.float32)
    assert made(Classify(output="scores"))({"scores": scores}, 1)[0]["score"] == 1.0


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_row_fails_alone(softmax: bool, bad: float) -> None:
    scores = GOOD["scores"].copy()
    scores[0, 2] = bad
    found = made(Classify(output="scores", labels=LABELS, softmax=softmax)).rows({"scores": scores}, 2)
    assert isinstance(found[0], IllegalAnswer)
    assert found[0].row == 0
    assert "NaN or infinity" in found[0].reason
    assert isinstance(found[1], dict)
    assert found[1]["label"] == "cat"
    with pytest.raises(IllegalAnswer, match="row 0"):
        made(Classify(output="scores", labels=LABELS, softmax=softmax))({"scores": scores}, 2)


@pytest.mark.parametrize("bad", [1.01, -0.01, 40.0])
def test_scores_outside_their_range_are_no_answer(bad: float) -> None:
    scores = GOOD["scores"].copy()
    scores[1, 0] = bad
    found = made(Classify(output="scores", labels=LABELS)).rows({"scores": scores}, 2)
    assert isinstance(found[0], dict)
    assert isinstance(found[1], IllegalAnswer)
    assert "outside [0, 1]" in found[1].reason


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros((3, 3), np.float32),
        np.zeros((1, 3), np.float32),
        np.zeros((2, 4), np.float32),
        np.zeros((2,), np.float32),
        np.zeros((2, 3, 1), np.float32),
    ],
)
@pytest.mark.parametrize("step", [Classify(output="scores", labels=LABELS), Tensors()])
def test_a_wrong_shape_fails_the_batch(step: PostStep, scores: np.ndarray) -> None:
    with pytest.raises(IllegalAnswer, match="output 'scores' has shape"):
        made(step).rows({**GOOD, "scores": scores}, 2)


def test_a_missing_output_fails_the_batch() -> None:
    with pytest.raises(IllegalAnswer, match="'scores' is missing"):
        made(Classify(output="scores")).rows({}, 2)


def test_classes_of_a_varying_axis_must_match_the_labels() -> None:
    signature = Signature(
        inputs=(), outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", "classes")),)
    )
    step = post(PipelineSpec(post=(Classify(output="scores", labels=LABELS),)), signature)
    with pytest.raises(IllegalAnswer, match="4 classes, not 3"):
        step({"scores": np.zeros((1, 4), np.float32)}, 1)


def test_regress_gives_one_number_per_row() -> None:
    assert made(Regress(output="price"))(GOOD, 2) == [{"value": 3.5}, {"value": -1.0}]
    found = made(Regress(output="price")).rows({"price": np.array([[1], [np.nan]], np.float32)}, 2)
    assert found[0] == {"value": 1.0}
    assert isinstance(found[1], IllegalAnswer)


@pytest.mark.parametrize("steps", [(), (Tensors(),)])
def test_tensors_are_nested_lists_under_their_names(steps: tuple[PostStep, ...]) -> None:
    exact = {"scores": np.array([[0.5, 0.25, 0]], np.float32), "price": np.array([[2]], np.float32)}
    assert made(*steps)(exact, 1) == [{"scores": [0.5, 0.25, 0.0], "price": [2.0]}]
    bad = {**GOOD, "price": np.array([[np.nan], [1]], np.float32)}
    found = made(*steps).rows(bad, 2)
    assert isinstance(found[0], IllegalAnswer)
    assert isinstance(found[1], dict)


def test_steps_join_in_one_answer_and_one_bad_part_fails_the_row() -> None:
    both = made(Classify(output="scores", labels=LABELS), Regress(output="price"))
    assert both.fields == ("label", "score", "index", "top", "value")
    answer = both(GOOD, 2)[0]
    assert (answer["label"], answer["value"]) == ("dog", 3.5)
    found = both.rows({**GOOD, "price": np.array([[1], [np.inf]], np.float32)}, 2)
    assert isinstance(found[0], dict)
    assert isinstance(found[1], IllegalAnswer)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ((Classify(output="score"),), "no output of the signature"),
        ((Classify(output="scores", labels=("cat",)),), "1 labels for 3 classes"),
        ((Regress(output="scores"),), "one number per row"),
        ((Classify(output="scores"), Classify(output="scores")), "two post-processing steps write index"),
    ],
)
def test_steps_that_do_not_fit_are_refused(steps: tuple[PostStep, ...], wanted: str) -> None:
    with pytest.raises(PipelineMismatch, match=wanted):
        made(*steps)
