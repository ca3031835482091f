"""Classes by sigmoid, by argmax and by threshold."""

import numpy as np
import pytest

from registry.contract.pipeline import Argmax, Classify, PostStep, Regress, Tags
from registry.contract.versions import Dtype, Signature
from serving.pipeline.activations import sigmoid
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from tests.serving.pipeline.made import behind, outputs

LABELS = ("cat", "dog", "eel")
SCORES = outputs(("y", Dtype.FP32, ("batch", 3)))
ONE = outputs(("y", Dtype.FP32, ("batch", 1)))


def array(*rows: object) -> dict[str, np.ndarray]:
    return {"y": np.array(rows, np.float32)}


def test_one_logit_stands_for_two_classes() -> None:
    step = behind(Classify(output="y", labels=("no", "yes"), sigmoid=True, top=2), ONE)
    yes, no = step(array([2.0], [-2.0]), 2)
    assert (yes["label"], no["label"]) == ("yes", "no")
    assert [yes["score"], no["score"]] == pytest.approx([1 / (1 + np.exp(-2))] * 2, rel=1e-6)
    assert [one["label"] for one in no["top"]] == ["no", "yes"]  # type: ignore[index,union-attr]
    flat = behind(Classify(output="y", sigmoid=True), outputs(("y", Dtype.FP32, ("batch",))))
    assert flat({"y": np.array([5, -5], np.float32)}, 2)[0]["index"] == 1


def test_sigmoid_scores_stand_for_themselves() -> None:
    answer = behind(Classify(output="y", labels=LABELS, sigmoid=True), SCORES)(array([0.0, 3.0, 1.0]), 1)[0]
    assert answer["label"] == "dog"
    assert answer["score"] == pytest.approx(1 / (1 + np.exp(-3)), rel=1e-6)


def test_sigmoid_does_not_overflow() -> None:
    made = sigmoid(np.array([-1e4, 0, 1e4], np.float32))
    assert made.tolist() == [0, 0.5, 1]
    assert sigmoid(np.array([-60000], np.float16)).tolist() == [0]


def test_tags_are_all_above_the_threshold_best_first() -> None:
    step = behind(Tags(output="y", labels=LABELS, threshold=0.4), SCORES)
    some, none = step(array([0.5, 0.1, 0.9], [0.1, 0.2, 0.3]), 2)
    assert [one["label"] for one in some["tags"]] == ["eel", "cat"]  # type: ignore[index,union-attr]
    assert (some["count"], none["count"], none["tags"]) == (2, 0, [])
    logits = behind(Tags(output="y", sigmoid=True), SCORES)(array([1, -1, 0]), 1)[0]
    assert logits["count"] == 2


def test_the_best_of_any_range_is_a_class_without_a_score() -> None:
    step = behind(Argmax(output="y", labels=LABELS), SCORES)
    assert step(array([-7, -3, -40], [5, 5, 2]), 2) == [
        {"label": "dog", "index": 1},
        {"label": "cat", "index": 0},
    ]


@pytest.mark.parametrize("shape", [("batch",), ("batch", 1)])
def test_a_class_that_the_model_picked_itself(shape: tuple[int | str, ...]) -> None:
    picked = np.array([2, 0]).reshape(2, *shape[1:])
    step = behind(Argmax(output="y", labels=LABELS), outputs(("y", Dtype.INT64, shape)))
    assert [one["label"] for one in step({"y": picked}, 2)] == ["eel", "cat"]
    named = behind(Argmax(output="y", labels=LABELS), outputs(("y", Dtype.BYTES, shape)))
    texts = np.array([b"dog", "owl"], dtype=object).reshape(2, *shape[1:])
    assert named({"y": texts}, 2) == [{"label": "dog", "index": 1}, {"label": "owl", "index": -1}]
    yes = behind(Argmax(output="y", labels=("no", "yes")), outputs(("y", Dtype.BOOL, shape)))
    assert yes({"y": np.array([True, False]).reshape(2, *shape[1:])}, 2)[0]["label"] == "yes"


@pytest.mark.parametrize(
    ("step", "signature", "bad", "said"),
    [
        (Tags(output="y"), SCORES, [0.5, 1.5, 0], r"outside \[0, 1\]"),
        (Tags(output="y", sigmoid=True), SCORES, [0.5, np.nan, 0], "NaN or infinity"),
        (Classify(output="y", sigmoid=True), SCORES, [0.5, np.inf, 0], "NaN or infinity"),
        (Argmax(output="y"), SCORES, [0.5, np.nan, 0], "NaN or infinity"),
        (Regress(output="y", high=3), ONE, [3.5], r"value is 3.5, and the contract allows \[-∞, 3\]"),
        (Regress(output="y", low=-1, high=3), ONE, [-2], r"allows \[-1, 3\]"),
    ],
)
def test_a_bad_row_fails_alone(step: PostStep, signature: Signature, bad: list[float], said: str) -> None:
    good = [0.2] * len(bad)
    found = behind(step, signature).rows(array(good, bad), 2)
    assert isinstance(found[0], dict)
    assert isinstance(found[1], IllegalAnswer)
    with pytest.raises(IllegalAnswer, match=said):
        raise found[1]


def test_a_class_that_no_label_has_is_no_answer() -> None:
    step = behind(Argmax(output="y", labels=LABELS), outputs(("y", Dtype.INT64, ("batch",))))
    found = step.rows({"y": np.array([3, -1, 2])}, 3)
    assert [isinstance(one, IllegalAnswer) for one in found] == [True, True, False]


def test_values_are_scaled_back_under_their_own_names() -> None:
    signature = outputs(("y", Dtype.FP32, ("batch", 2)))
    price = behind(Regress(output="y", field="price", column=1, scale=100, offset=-5), signature)
    assert price(array([9, 0.5]), 1) == [{"price": 45.0}]
    assert price.fields == ("price",)


@pytest.mark.parametrize(
    ("step", "signature", "said"),
    [
        (Classify(output="y", labels=("a",), sigmoid=True), ONE, "1 labels for 2 classes"),
        (Classify(output="y"), outputs(("y", Dtype.FP32, ("batch",))), "FLOAT"),
        (Tags(output="y", labels=("a",)), SCORES, "1 labels for 3 classes"),
        (Tags(output="y"), outputs(("y", Dtype.INT64, ("batch", 3))), "FLOAT"),
        (Argmax(output="y"), outputs(("y", Dtype.BYTES, ("batch", 3))), "one class per row"),
        (Regress(output="y", column=0), outputs(("y", Dtype.FP32, ("batch", 2, 2))), "one number per row"),
    ],
)
def test_steps_that_do_not_fit_are_refused(step: PostStep, signature: Signature, said: str) -> None:
    with pytest.raises(PipelineMismatch, match=said):
        behind(step, signature)


def test_softmax_and_sigmoid_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        Classify(output="y", softmax=True, sigmoid=True)
