"""Boxes found against boxes that are there. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

LEAST_IOU = 0.5


@dataclass(frozen=True, slots=True)
class Box:
    """`edges`: x1, y1, x2, y2. A tag is a box like any other of its label."""

    label: str
    score: float = 1.0
    edges: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)


class Hit(NamedTuple):
    """One box that was found, and whether it is one of those that are there."""

    label: str
    score: float
    right: bool


@dataclass(frozen=True, slots=True)
class Marks:
    """Of one row. `there`: labels of the boxes that are there."""

    hits: tuple[Hit, ...]
    there: tuple[str, ...]

    @property
    def right(self) -> int:
        return sum(hit.right for hit in self.hits)

    @property
    def wrong(self) -> int:
        return len(self.hits) - self.right

    @property
    def missed(self) -> int:
        return len(self.there) - self.right


def match(found: tuple[Box, ...], there: tuple[Box, ...]) -> Marks:
    """The surest box first: each takes the nearest free one of its label that it overlaps by at least
    `LEAST_IOU`. The rule of PASCAL VOC (M. Everingham et al., 2010)."""
    free = list(there)
    hits = []
    for box in sorted(found, key=lambda box: -box.score):
        same = [one for one in free if one.label == box.label]
        nearest = max(same, key=lambda one: overlap(one, box), default=None)
        right = nearest is not None and overlap(nearest, box) >= LEAST_IOU
        if nearest is not None and right:
            free.remove(nearest)
        hits.append(Hit(box.label, box.score, right))
    return Marks(tuple(hits), tuple(one.label for one in there))


def overlap(left: Box, right: Box) -> float:
    """Intersection over union, 0 to 1."""
    (a1, b1, a2, b2), (c1, d1, c2, d2) = left.edges, right.edges
    width, height = min(a2, c2) - max(a1, c1), min(b2, d2) - max(b1, d1)
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a2 - a1) * (b2 - b1) + (c2 - c1) * (d2 - d1) - both)
