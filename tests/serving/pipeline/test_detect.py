"""Boxes: every form, suppression, scaling back, and what is no legal answer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.contract.pipeline import Detect, Image, PipelineSpec, Resize
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.prepared import Cost, Place
from serving.pipeline.processing import located, post, pre
from serving.pipeline.suppress import suppress
from tests.serving.pipeline.made import behind, outputs, png

LABELS = ("cat", "dog")
BOTH = outputs(("y", Dtype.FP32, ("batch", "boxes", 6)))
APART = outputs(("b", Dtype.FP32, ("batch", "boxes", 4)), ("s", Dtype.FP32, ("batch", "boxes", 2)))
PLACE = Place(width=100, height=50, input_width=64, input_height=64, scale_x=0.64, scale_y=0.64, top=16)


def rows(*boxes: list[float]) -> dict[str, np.ndarray]:
    return {"y": np.array([boxes], np.float32)}


def found(
    step: Detect, outputs: dict[str, np.ndarray], signature: Signature = BOTH, place: Any = None
) -> Any:
    return behind(step, signature)(outputs, 1, place)[0]


def test_overlapping_boxes_of_one_class_fall() -> None:
    step = Detect(boxes="y", labels=LABELS)
    answer = found(
        step,
        rows(
            [0, 0, 10, 10, 0.9, 0], [1, 1, 10, 10, 0.8, 0], [1, 0, 10, 10, 0, 0.7], [40, 40, 50, 50, 0.3, 0]
        ),
    )
    assert [(one["label"], round(one["score"], 5)) for one in answer["detections"]] == [
        ("cat", 0.9),
        ("dog", 0.7),
        ("cat", 0.3),
    ]
    assert (answer["count"], round(answer["score"], 5)) == (3, 0.9)
    assert (
        found(
            step.model_copy(update={"per_class": False}), rows([0, 0, 10, 10, 0.9, 0], [1, 0, 10, 10, 0, 0.7])
        )["count"]
        == 1
    )


def test_nothing_is_an_answer_too() -> None:
    for boxes in (rows([0, 0, 9, 9, 0.1, 0.2]), {"y": np.zeros((1, 0, 6), np.float32)}):
        assert found(Detect(boxes="y"), boxes) == {"detections": [], "count": 0, "score": 0.0}


@pytest.mark.parametrize(
    ("form", "numbers"),
    [
        ("xyxy", [10, 20, 30, 60]),
        ("yxyx", [20, 10, 60, 30]),
        ("xywh", [10, 20, 20, 40]),
        ("cxcywh", [20, 40, 20, 40]),
    ],
)
def test_every_form_is_the_same_box(form: str, numbers: list[float]) -> None:
    step = Detect.model_validate({"boxes": "y", "form": form})
    assert found(step, rows([*numbers, 0.9, 0]))["detections"][0]["box"] == [10, 20, 30, 60]


def test_yolo_like_outputs_lie_in_columns_and_may_have_an_objectness() -> None:
    columns = outputs(("y", Dtype.FP32, ("batch", 6, "boxes")))
    step = Detect(boxes="y", form="cxcywh", columns=True, labels=LABELS)
    made = {"y": np.array([[[20], [40], [20], [40], [0.2], [0.9]]], np.float32)}
    assert found(step, made, columns)["detections"][0]["label"] == "dog"
    signature = outputs(("y", Dtype.FP32, ("batch", "boxes", 7)))
    step = Detect(boxes="y", objectness=True, sigmoid=True, labels=LABELS)
    made = {"y": np.array([[[0, 0, 5, 5, 0, 9, -9]]], np.float32)}
    assert found(step, made, signature)["detections"][0]["score"] == pytest.approx(0.5, abs=1e-3)


def test_scores_apart_by_softmax_with_a_background() -> None:
    signature = outputs(("b", Dtype.FP32, ("batch", 2, 4)), ("s", Dtype.FP32, ("batch", 2, 3)))
    step = Detect(boxes="b", scores="s", softmax=True, background=0, labels=("none", *LABELS))
    made = {
        "b": np.array([[[0, 0, 5, 5], [20, 20, 30, 30]]], np.float32),
        "s": np.array([[[9, 0, 0], [0, 0, 9]]], np.float32),
    }
    assert [one["label"] for one in found(step, made, signature)["detections"]] == ["dog"]


def test_boxes_come_back_to_the_image_that_was_sent() -> None:
    answer = found(Detect(boxes="y"), rows([6.4, 22.4, 12.8, 99, 0.9, 0]), place=PLACE)
    assert answer["detections"][0]["box"] == pytest.approx([10, 10, 20, 50])
    relative = found(Detect(boxes="y", relative=True), rows([0.1, 0.35, 0.2, 0.5, 0.9, 0]), place=PLACE)
    assert relative["detections"][0]["box"] == pytest.approx([10, 10, 20, 25], rel=1e-5)


@settings(max_examples=30)
@given(
    st.sampled_from(["stretch", "letterbox", "crop"]),
    st.integers(20, 200),
    st.integers(20, 200),
    st.sampled_from(["centre", "top-left"]),
)
def test_a_mark_in_the_image_is_found_where_it_is(fit: str, width: int, height: int, place: str) -> None:
    """A bright square in the sent image; a detector that boxes the brightest pixels of its input."""
    resize = Resize.model_validate({"width": 64, "height": 64, "fit": fit, "fill": 0, "place": place})
    pipeline = PipelineSpec(pre=(Image(output="image", resize=resize),), post=(Detect(boxes="y"),))
    signature = Signature(
        inputs=(TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 3, 64, 64)),), outputs=BOTH.outputs
    )
    left, top, size = width // 2 - 5, height // 2 - 5, 10
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[top : top + size, left : left + size] = 255
    prepared = pre(pipeline, signature).prepare(png(pixels))
    lit = np.argwhere(prepared.tensors["image"][0, 0] > 127)
    (y1, x1), (y2, x2) = lit.min(axis=0), lit.max(axis=0) + 1
    answer = post(pipeline, signature)(rows([x1, y1, x2, y2, 0.9, 0]), 1, prepared.place)[0]
    box = answer["detections"][0]["box"]  # type: ignore[index,call-overload]
    slack = 1.5 / min(prepared.place.scale_x, prepared.place.scale_y)  # type: ignore[union-attr]
    assert box == pytest.approx([left, top, left + size, top + size], abs=slack)


def test_other_answers_have_no_place() -> None:
    answer = {"label": "cat"}
    assert located(PipelineSpec(), answer, PLACE) is answer


def iou(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


boxes = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 15), st.integers(1, 15))


@given(st.lists(st.tuples(boxes, st.integers(1, 99), st.integers(0, 1)), max_size=14), st.booleans())
def test_suppression_agrees_with_the_plain_loop(found: list[Any], per_class: bool) -> None:
    corners = [[x, y, x + w, y + h] for (x, y, w, h), _, _ in found]
    wanted: list[int] = []
    for at in sorted(range(len(found)), key=lambda at: -found[at][1]):
        rivals = [one for one in wanted if not per_class or found[one][2] == found[at][2]]
        if all(iou(corners[at], corners[one]) <= 0.4 for one in rivals):
            wanted.append(at)
    classes = np.array([one[2] for one in found]) if per_class else None
    made = np.array(corners, np.float64).reshape(-1, 4)
    scores = np.array([one[1] for one in found], np.float64)
    assert suppress(made, scores, classes, 0.4, 100).tolist() == wanted
    assert suppress(made, scores, classes, 0.4, 2).tolist() == wanted[:2]


def test_at_most_so_many_and_only_real_boxes() -> None:
    many = rows(*[[20 * at, 0, 20 * at + 9, 9, 0.9 - at / 100, 0] for at in range(9)])
    assert found(Detect(boxes="y", most=3), many)["count"] == 3
    assert found(Detect(boxes="y", candidates=2), many)["count"] == 2
    assert found(Detect(boxes="y"), rows([5, 5, 5, 9, 0.9, 0], [9, 9, 5, 5, 0.9, 0]))["count"] == 0


@pytest.mark.parametrize(
    ("step", "made", "signature", "said"),
    [
        (Detect(boxes="y"), rows([0, 0, 5, 5, 7, 0]), BOTH, r"outside \[0, 1\]"),
        (Detect(boxes="y"), rows([0, np.nan, 5, 5, 0.7, 0]), BOTH, "NaN or infinity"),
        (Detect(boxes="y", labels=("a",)), rows([0, 0, 5, 5, 0.7, 0]), BOTH, "2 classes for 1 labels"),
        (
            Detect(boxes="b", scores="s"),
            {"b": np.zeros((1, 2, 4), np.float32), "s": np.zeros((1, 3, 2), np.float32)},
            APART,
            "2 boxes and scores for 3",
        ),
    ],
)
def test_what_can_not_be_right_is_no_answer(
    step: Detect, made: dict[str, np.ndarray], signature: Signature, said: str
) -> None:
    with pytest.raises(IllegalAnswer, match=said):
        found(step, made, signature)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Detect(boxes="z"), "no output of the signature"),
        (Detect(boxes="y", scores="y"), "four numbers a box from 'y', which has 6"),
    ],
)
def test_steps_that_do_not_fit_are_refused(step: Detect, said: str) -> None:
    with pytest.raises(PipelineMismatch, match=said):
        behind(step, BOTH)


def test_it_is_always_for_a_worker() -> None:
    assert behind(Detect(boxes="y"), BOTH).cost({}) is Cost.WORKER
