"""Candidate boxes → detections."""

from typing import assert_never

import numpy as np

from registry.contract.pipeline import Detect
from registry.contract.versions import Signature, TensorSpec
from serving.pipeline.activations import sigmoid, softmax, widened
from serving.pipeline.answers import Answer, AnswerValue, RowAnswer
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.legality import (
    clipped,
    finite_rows,
    not_finite,
    output_of,
    output_spec,
    outside,
    scores_legal,
)
from serving.pipeline.prepared import Cost, Place
from serving.pipeline.suppress import suppress
from serving.runtimes.dtypes import FLOATS
from serving.runtimes.protocol import Array, Tensors


class DetectStep:
    """`detections`, `count`, `score`. Boxes are in the engine's input; `locate` brings them back."""

    def __init__(self, step: Detect, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        self._step = step
        self._boxes = _spec(signature, step.boxes)
        self._scores = None if step.scores is None else _spec(signature, step.scores)
        width = self._boxes.shape[1 if step.columns else 2]
        if step.scores is not None and isinstance(width, int) and width != 4:
            raise PipelineMismatch(f"detect reads four numbers a box from {step.boxes!r}, which has {width}")
        self._before = 5 if step.objectness else 4

    def cost(self, outputs: Tensors) -> Cost:
        return Cost.WORKER

    def rows(self, outputs: Tensors, rows: int) -> list[RowAnswer]:
        boxes = self._laid(output_of(outputs, self._boxes, rows))
        if self._scores is None:
            finite = finite_rows(boxes)
            scores = boxes[:, :, 4:]
        else:
            scores = self._laid(output_of(outputs, self._scores, rows))
            if scores.shape[1] != boxes.shape[1]:
                raise IllegalAnswer(f"{boxes.shape[1]} boxes and scores for {scores.shape[1]} of them")
            finite = finite_rows(boxes) & finite_rows(scores)
        classes = scores.shape[2] - (1 if self._step.objectness else 0)
        if classes < 1 or (self._step.labels and classes != len(self._step.labels)):
            raise IllegalAnswer(f"scores of {classes} classes for {len(self._step.labels)} labels")
        return [
            self._row(boxes[row, :, :4], scores[row], row)
            if finite[row]
            else not_finite(self._step.boxes, row)
            for row in range(rows)
        ]

    def _laid(self, tensor: Array) -> Array:
        return tensor.transpose(0, 2, 1) if self._step.columns else tensor

    def _row(self, boxes: Array, scores: Array, row: int) -> RowAnswer:
        step = self._step
        scores = widened(scores)
        if step.softmax:
            scores = softmax(scores)
        elif step.sigmoid:
            scores = sigmoid(scores)
        if scores.size and not scores_legal(scores[np.newaxis])[0]:
            return outside(step.scores or step.boxes, row)
        if step.objectness:
            scores = scores[:, :1] * scores[:, 1:]
        if step.background is not None and step.background < scores.shape[1]:
            scores = scores.copy()
            scores[:, step.background] = -1
        if not len(scores):
            return self._answer(boxes, scores[:, 0], np.empty(0, np.int64), np.empty(0, np.int64))
        classes = scores.argmax(axis=1)
        best = scores[np.arange(len(scores)), classes]
        corners = self._corners(widened(boxes).astype(np.float64))
        flat = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
        chosen = np.flatnonzero((best >= max(step.threshold, 0)) & flat)
        if len(chosen) > step.candidates:
            order = np.argsort(-best[chosen], kind="stable")[: step.candidates]
            chosen = chosen[np.sort(order)]
        grouped = classes[chosen] if step.per_class else None
        kept = chosen[suppress(corners[chosen], best[chosen], grouped, step.iou, step.most)]
        return self._answer(corners, best, classes, kept)

    def _corners(self, boxes: Array) -> Array:
        """float64[boxes, 4]: x1, y1, x2, y2."""
        form = self._step.form
        match form:
            case "xyxy":
                return boxes
            case "yxyx":
                return boxes[:, [1, 0, 3, 2]]
            case "xywh":
                return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
            case "cxcywh":
                half = boxes[:, 2:] / 2
                return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
            case _:
                assert_never(form)

    def _answer(self, corners: Array, best: Array, classes: Array, kept: Array) -> Answer:
        labels = self._step.labels
        detections: list[AnswerValue] = [
            {
                "label": labels[index] if labels else str(index),
                "index": index,
                "score": clipped(best[at]),
                "box": [float(edge) for edge in corners[at]],
            }
            for at, index in ((int(at), int(classes[at])) for at in kept)
        ]
        score = clipped(best[kept[0]]) if len(kept) else 0.0
        return {"detections": detections, "count": len(detections), "score": score}


def locate(step: Detect, answer: Answer, place: Place) -> Answer:
    """Boxes in pixels of the image that was sent, cut at its edges."""
    found = answer["detections"]
    assert isinstance(found, list), "as DetectStep makes it"
    return {**answer, "detections": [_moved(one, place, step.relative) for one in found]}


def _moved(detection: AnswerValue, place: Place, relative: bool) -> AnswerValue:
    assert isinstance(detection, dict) and isinstance(detection["box"], list), "as DetectStep makes it"
    unit = (place.input_width, place.input_height) * 2 if relative else (1, 1, 1, 1)
    start = (place.left, place.top) * 2
    scale = (place.scale_x, place.scale_y) * 2
    most = (place.width, place.height) * 2
    edges = [edge for edge in detection["box"] if isinstance(edge, int | float)]
    box: list[AnswerValue] = [
        min(float(most[at]), max(0.0, (edge * unit[at] - start[at]) / scale[at]))
        for at, edge in enumerate(edges)
    ]
    return {**detection, "box": box}


def _spec(signature: Signature, name: str) -> TensorSpec:
    spec = output_spec(signature, name, "detect")
    if spec.dtype not in FLOATS or len(spec.shape) != 3:
        raise PipelineMismatch(
            f"detect reads FLOAT[rows, boxes, numbers], but {name!r} is {spec.dtype.value}{list(spec.shape)}"
        )
    return spec
