"""Images of any size → the size that the model was trained with."""

import math
from typing import TYPE_CHECKING, assert_never

import numpy as np

from registry.contract.pipeline import Interpolation, Resize
from serving.pipeline.prepared import Place
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

if TYPE_CHECKING:
    from PIL import Image as Pillow

MOST_SCALED = 1 << 26
_FIXED = 2048


class Resizer:
    """A Pillow image of mode RGB or L → uint8[height, width, channels], and where it lies there."""

    def __init__(self, spec: Resize) -> None:
        self._spec = spec

    def __call__(self, image: "Pillow.Image") -> tuple[Array, Place]:
        spec = self._spec
        match spec.fit:
            case "stretch":
                size = (spec.width, spec.height)
                return self._place(image, size, (spec.width, spec.height), (0, 0))
            case "letterbox":
                ratio = min(spec.width / image.width, spec.height / image.height)
                size = (_at_least_one(image.width * ratio), _at_least_one(image.height * ratio))
                corner = ((spec.width - size[0]) // 2, (spec.height - size[1]) // 2)
                corner = corner if spec.place == "centre" else (0, 0)
                return self._place(image, size, (spec.width, spec.height), corner)
            case "crop":
                return self._crop(image)
            case "height":
                wanted = math.ceil(spec.height * image.width / image.height)
                width = min(wanted, spec.longest or spec.width)
                canvas = (max(width, spec.width), spec.height)
                return self._place(image, (width, spec.height), canvas, (0, 0))
            case _:
                assert_never(spec.fit)

    def filled(self, place: Place) -> tuple[int, int, int, int]:
        """Left, top, right and bottom edge of the image in its canvas; what lies outside is filled."""
        left, top = max(0, int(place.left)), max(0, int(place.top))
        right = min(place.input_width, round(place.left + place.width * place.scale_x))
        bottom = min(place.input_height, round(place.top + place.height * place.scale_y))
        return left, top, right, bottom

    def _crop(self, image: "Pillow.Image") -> tuple[Array, Place]:
        """The longer side is cut to whole pixels, the corner rounded: as torchvision does."""
        spec = self._spec
        short = min(image.width, image.height)
        if spec.shorter is not None:
            size = (spec.shorter * image.width // short, spec.shorter * image.height // short)
        else:
            ratio = max(spec.width / image.width, spec.height / image.height)
            size = (
                max(spec.width, int(image.width * ratio)),
                max(spec.height, int(image.height * ratio)),
            )
        if size[0] * size[1] > MOST_SCALED:
            raise InputError(
                "image",
                wanted=f"sides that make at most {MOST_SCALED} pixels when the shorter one is scaled",
                got=f"{image.width} × {image.height}, which make {size[0]} × {size[1]}",
                mend="send the part that matters: an image this narrow was not in training",
            )
        left = round((size[0] - spec.width) / 2)
        top = round((size[1] - spec.height) / 2)
        whole = resized(image, size, spec.interpolation)
        place = Place(
            width=image.width,
            height=image.height,
            input_width=spec.width,
            input_height=spec.height,
            scale_x=size[0] / image.width,
            scale_y=size[1] / image.height,
            left=-left,
            top=-top,
        )
        return whole[top : top + spec.height, left : left + spec.width], place

    def _place(
        self, image: "Pillow.Image", size: tuple[int, int], canvas: tuple[int, int], corner: tuple[int, int]
    ) -> tuple[Array, Place]:
        pixels = resized(image, size, self._spec.interpolation)
        place = Place(
            width=image.width,
            height=image.height,
            input_width=canvas[0],
            input_height=canvas[1],
            scale_x=size[0] / image.width,
            scale_y=size[1] / image.height,
            left=corner[0],
            top=corner[1],
        )
        if size == canvas:
            return pixels, place
        whole = np.full((canvas[1], canvas[0], pixels.shape[2]), self._spec.fill, dtype=np.uint8)
        whole[corner[1] : corner[1] + size[1], corner[0] : corner[0] + size[0]] = pixels
        return whole, place


def resized(image: "Pillow.Image", size: tuple[int, int], interpolation: Interpolation) -> Array:
    """uint8[height, width, channels]; `size` is (width, height)."""
    if interpolation == "opencv-linear":
        return opencv_linear(pixels_of(image), size)
    from PIL import Image as Pillow

    return pixels_of(image.resize(size, Pillow.Resampling[interpolation.upper()]))


def pixels_of(image: "Pillow.Image") -> Array:
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]


def opencv_linear(pixels: Array, size: tuple[int, int]) -> Array:
    """OpenCV's INTER_LINEAR for uint8, to the last bit: fixed-point weights, no averaging when it shrinks but
    for exactly half the size, where it takes the mean of four."""
    height, width = pixels.shape[:2]
    if (width, height) == size:
        return pixels
    if (width, height) == (2 * size[0], 2 * size[1]):
        wide = pixels.astype(np.int32)
        four = wide[::2, ::2] + wide[::2, 1::2] + wide[1::2, ::2] + wide[1::2, 1::2]
        return ((four + 2) >> 2).astype(np.uint8)
    left, right, nearer, further = _weights(width, size[0], flat=True)
    top, bottom, upper, lower = _weights(height, size[1], flat=False)
    wide = pixels.astype(np.int32)
    rows = wide[:, left] * nearer[:, np.newaxis] + wide[:, right] * further[:, np.newaxis]
    rows >>= 4
    above = (upper[:, np.newaxis, np.newaxis] * rows[top]) >> 16
    below = (lower[:, np.newaxis, np.newaxis] * rows[bottom]) >> 16
    made: Array = np.clip((above + below + 2) >> 2, 0, 255).astype(np.uint8)
    return made


def _weights(source: int, target: int, *, flat: bool) -> tuple[Array, Array, Array, Array]:
    """For each target position: the two source positions, and the weights of both in 1/2048, each rounded by
    itself. `flat`: beyond the edges the first one has all the weight (along rows), instead of both being the
    edge (along columns), which rounds otherwise."""
    step = 1 / (target / source)
    centres = ((np.arange(target) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(centres).astype(np.int64)
    part = centres - first.astype(np.float32)
    if flat:
        part = np.where((first < 0) | (first >= source - 1), np.float32(0), part)
    nearer = np.rint((np.float32(1) - part) * np.float32(_FIXED)).astype(np.int32)
    further = np.rint(part * np.float32(_FIXED)).astype(np.int32)
    return np.clip(first, 0, source - 1), np.clip(first + 1, 0, source - 1), nearer, further


def _at_least_one(size: float) -> int:
    return max(1, round(size))
