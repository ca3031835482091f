"""Non-maximum suppression of boxes [x1, y1, x2, y2]."""

import numpy as np

from serving.runtimes.protocol import Array


def suppress(boxes: Array, scores: Array, classes: Array | None, iou: float, most: int) -> Array:
    """Indices of the boxes that are kept, best first; of equal scores the first one wins.

    A box falls when a better one that was kept overlaps it by more than `iou`; with `classes` only one of
    its own class can.
    """
    order = np.argsort(-scores, kind="stable")
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best, others = int(order[0]), order[1:]
        kept.append(best)
        falls = overlaps(boxes[best], boxes[others], areas[best], areas[others]) > iou
        if classes is not None:
            falls &= classes[others] == classes[best]
        order = others[~falls]
    return np.asarray(kept, dtype=np.int64)


def overlaps(box: Array, others: Array, area: float, areas: Array) -> Array:
    """Intersection over union of one box with each of the others."""
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    ratio: Array = shared / np.maximum(area + areas - shared, np.finfo(np.float32).tiny)
    return ratio
