"""Photographs as a training program saw them: colour order, resize, mean and std are proven."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image as Pillow

from registry.contract.engines import GoldenReport
from registry.contract.pipeline import Classify, Detect, Image, PipelineSpec, PostStep, Resize
from registry.contract.versions import Dtype, Signature, TensorSpec
from tests.assets import photo
from tests.builder import made
from tests.builder.recorded import pair, proven

SIDE = 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LABELS = ("astronaut", "cat", "coffee")
PHOTOS = ("astronaut.png", "chelsea.png", "rocket.jpg")
INPUT = TensorSpec(name="image", dtype=Dtype.FP32, shape=("batch", 3, SIDE, SIDE))
SIGNATURE = Signature(
    inputs=(INPUT,), outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 3)),)
)
STEP = Image(
    output="image",
    resize=Resize(width=SIDE, height=SIDE, interpolation="bilinear"),
    scale=1 / 255,
    mean=MEAN,
    std=STD,
)
DENSE = (np.random.default_rng(4).standard_normal((3 * SIDE * SIDE, 3)) / 40).astype(np.float32)


def model(path: Path) -> Path:
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("MatMul", ["flat", "dense"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["scores"], axis=1),
        ],
        "photos",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(DENSE, "dense")],
    )
    return made.save(graph, path)


@cache
def shrunk(name: str) -> bytes:
    """A photo as a smaller file of its own kind, so that the tests are quick."""
    image = Pillow.open(io.BytesIO(photo(name)))
    image.thumbnail((160, 120))
    stream = io.BytesIO()
    image.save(stream, "JPEG" if name.endswith("jpg") else "PNG")
    return stream.getvalue()


def trained(name: str) -> dict[str, Any]:
    """What the training program does, without any of our code."""
    image = (
        Pillow.open(io.BytesIO(shrunk(name))).convert("RGB").resize((SIDE, SIDE), Pillow.Resampling.BILINEAR)
    )
    x = np.asarray(image, np.float32) / 255
    x = ((x - np.array(MEAN, np.float32)) / np.array(STD, np.float32)).transpose(2, 0, 1)[np.newaxis]
    logits = x.reshape(1, -1) @ DENSE
    scores = np.exp(logits - logits.max())
    scores = (scores / scores.sum()).astype(np.float32)
    answer = {"label": LABELS[int(scores.argmax())], "score": float(scores.max())}
    return pair(shrunk(name), {"image": x}, {"scores": scores}, answer)


def checked(folder: Path, step: Image) -> GoldenReport:
    pipeline = PipelineSpec(pre=(step,), post=(Classify(output="scores", labels=LABELS),))
    pairs = [trained(name) for name in PHOTOS]
    return proven(folder, model(folder / "model.onnx"), pairs, SIGNATURE, pipeline, max_abs=1e-4)


def test_real_photos_are_seen_as_in_training(tmp_path: Path) -> None:
    report = checked(tmp_path, STEP)
    assert (report.passed, report.first_difference, report.pairs) == (True, None, len(PHOTOS))


@pytest.mark.parametrize(
    "fault",
    [
        {"colour": "bgr"},
        {"mean": MEAN[::-1]},
        {"std": (0.5, 0.5, 0.5)},
        {"scale": 1.0},
        {"mean": (), "std": ()},
        {"resize": Resize(width=SIDE, height=SIDE, interpolation="bicubic")},
        {"resize": Resize(width=SIDE, height=SIDE, interpolation="nearest")},
        {"resize": Resize(width=SIDE, height=SIDE, interpolation="opencv-linear")},
        {"resize": Resize(width=SIDE, height=SIDE, fit="letterbox")},
        {"resize": Resize(width=SIDE, height=SIDE, fit="crop")},
    ],
    ids=lambda fault: "-".join(fault),
)
def test_every_other_preparation_is_refused_at_its_first_number(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    report = checked(tmp_path, STEP.model_copy(update=fault))
    assert not report.passed
    assert report.first_difference
    # The first photo is square, so another fit shows at the second one.
    where = 2 if getattr(fault.get("resize"), "fit", "stretch") != "stretch" else 1
    assert report.first_difference.startswith(f"pair {where}, pre-processing, input 'image', element [0, ")
    assert "wanted" in report.first_difference and "got" in report.first_difference


BOXES = np.array(
    [[[4, 6, 20, 18, 0.9, 0.0], [5, 6, 20, 18, 0.8, 0.0], [24, 8, 30, 14, 0.1, 0.6]]], np.float32
)
DETECTOR = Signature(
    inputs=(INPUT,), outputs=(TensorSpec(name="boxes", dtype=Dtype.FP32, shape=("batch", 3, 6)),)
)


def detector(path: Path) -> Path:
    """Always the same three candidates, whatever is seen."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
            helper.make_node("Reshape", ["nothing", "deep"], ["flat"]),
            helper.make_node("Add", ["flat", "candidates"], ["boxes"]),
        ],
        "boxes",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["batch", 3, 6])],
        [
            numpy_helper.from_array(np.array([1, 2, 3], np.int64), "axes"),
            numpy_helper.from_array(np.zeros((), np.float32), "zero"),
            numpy_helper.from_array(np.array([-1, 1, 1], np.int64), "deep"),
            numpy_helper.from_array(BOXES, "candidates"),
        ],
    )
    return made.save(graph, path, opset=18)


@pytest.mark.parametrize(
    ("post", "said"),
    [
        (Detect(boxes="boxes", labels=("cat", "dog")), None),
        (Detect(boxes="boxes", labels=("dog", "cat")), "answer.detections[0].label: wanted 'cat', got 'dog'"),
        (Detect(boxes="boxes", labels=("cat", "dog"), iou=0.99), "answer.count: wanted 2, got 3"),
        (Detect(boxes="boxes", labels=("cat", "dog"), form="xywh"), "answer.detections[0].box[2]: wanted"),
    ],
)
def test_boxes_are_held_to_the_photos_own_pixels(tmp_path: Path, post: PostStep, said: str | None) -> None:
    """The training program letterboxes into the middle; its answer is in the photo that was sent."""
    raw = shrunk("chelsea.png")
    image = Pillow.open(io.BytesIO(raw)).convert("RGB")
    ratio = min(SIDE / image.width, SIDE / image.height)
    size = (round(image.width * ratio), round(image.height * ratio))
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    canvas = Pillow.new("RGB", (SIDE, SIDE), (114, 114, 114))
    canvas.paste(image.resize(size, Pillow.Resampling.BICUBIC), (left, top))
    x = (np.asarray(canvas, np.float32) / 255).transpose(2, 0, 1)[np.newaxis]

    def back(box: list[float]) -> list[float]:
        scale = (size[0] / image.width, size[1] / image.height) * 2
        corner, most = (left, top) * 2, image.size * 2
        return [float(min(most[at], max(0, (edge - corner[at]) / scale[at]))) for at, edge in enumerate(box)]

    answer = {
        "count": 2,
        "detections": [
            {"label": "cat", "score": 0.9, "box": back([4, 6, 20, 18])},
            {"label": "dog", "score": 0.6, "box": back([24, 8, 30, 14])},
        ],
    }
    step = Image(
        output="image",
        resize=Resize(width=SIDE, height=SIDE, fit="letterbox", interpolation="bicubic"),
        scale=1 / 255,
    )
    recorded = pair(raw, {"image": x}, {"boxes": BOXES}, answer)
    engine = detector(tmp_path / "model.onnx")
    report = proven(tmp_path, engine, [recorded], DETECTOR, PipelineSpec(pre=(step,), post=(post,)))
    if said is None:
        assert report.first_difference is None
    else:
        assert report.first_difference
        assert report.first_difference.startswith(f"pair 1, post-processing, {said}")
