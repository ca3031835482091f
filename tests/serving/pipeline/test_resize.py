"""Sizes, borders, and where the image lies: each against its definition."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from registry.contract.pipeline import Interpolation, Resize
from serving.pipeline.resize import Resizer, opencv_linear
from serving.runtimes.errors import InputError
from tests.serving.pipeline.made import picture


def test_stretch_is_pillows_own_resize() -> None:
    image = Pillow.fromarray(picture(31, 17))
    for name in ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"):
        interpolation: Interpolation = name  # type: ignore[assignment]
        found, place = Resizer(Resize(width=12, height=9, interpolation=interpolation))(image)
        wanted = np.asarray(image.resize((12, 9), Pillow.Resampling[name.upper()]))
        np.testing.assert_array_equal(found, wanted)
        assert (place.scale_x, place.scale_y) == (12 / 31, 9 / 17)


def test_interpolations_differ() -> None:
    image = Pillow.fromarray(picture(40, 40))
    names: tuple[Interpolation, ...] = ("nearest", "bilinear", "bicubic", "opencv-linear")
    made = {Resizer(Resize(width=13, height=13, interpolation=name))(image)[0].tobytes() for name in names}
    assert len(made) == len(names)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        # Of cv2.resize(…, interpolation=cv2.INTER_LINEAR), OpenCV 5.0.0, on the same pixels.
        ((13, 29), "0fa55e45f817f6e3"),
        ((100, 7), "d8bc2da74aba8ad3"),
        ((30, 20), "7e7dc7dde75cc96b"),
        ((61, 41), "c539dc61cc326b2e"),
    ],
)
def test_opencv_linear_is_opencvs_to_the_last_bit(size: tuple[int, int], wanted: str) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    assert hashlib.sha256(opencv_linear(pixels, size).tobytes()).hexdigest()[:16] == wanted


def test_letterbox_keeps_the_aspect_and_fills_the_rest() -> None:
    image = Pillow.fromarray(np.full((10, 20, 3), 200, np.uint8))
    found, place = Resizer(Resize(width=40, height=40, fit="letterbox", fill=9))(image)
    assert (found[10:30] == 200).all()
    assert (found[:10] == 9).all() and (found[30:] == 9).all()
    assert (place.left, place.top, place.scale_x, place.scale_y) == (0, 10, 2, 2)
    cornered, place = Resizer(Resize(width=40, height=40, fit="letterbox", place="top-left"))(image)
    assert (cornered[:20] == 200).all() and (cornered[20:] == 114).all()
    assert (place.left, place.top) == (0, 0)


def test_crop_takes_the_centre() -> None:
    pixels = picture(64, 32)
    image = Pillow.fromarray(pixels)
    found, place = Resizer(Resize(width=28, height=28, fit="crop", shorter=32))(image)
    np.testing.assert_array_equal(found, pixels[2:30, 18:46])
    assert (place.left, place.top) == (-18, -2)
    covered, _ = Resizer(Resize(width=32, height=32, fit="crop"))(image)
    np.testing.assert_array_equal(covered, pixels[:, 16:48])


def test_a_needle_is_not_blown_up() -> None:
    image = Pillow.new("RGB", (20_000, 1))
    with pytest.raises(InputError, match="this narrow"):
        Resizer(Resize(width=224, height=224, fit="crop", shorter=256))(image)


@pytest.mark.parametrize(
    ("width", "longest", "made", "kept"),
    [(50, None, 100, 50), (300, None, 100, 100), (300, 250, 250, 250), (120, 250, 120, 120)],
)
def test_lines_of_text_keep_their_height(width: int, longest: int | None, made: int, kept: int) -> None:
    image = Pillow.fromarray(np.full((10, width, 3), 50, np.uint8))
    resizer = Resizer(Resize(width=100, height=10, fit="height", fill=255, longest=longest))
    found, place = resizer(image)
    assert found.shape == (10, made, 3)
    assert (found[:, :kept] == 50).all() and (found[:, kept:] == 255).all()
    assert resizer.filled(place) == (0, 0, kept, 10)


@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from(["stretch", "letterbox", "crop", "height"]),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_every_size_goes_in_and_the_canvas_comes_out(
    width: int, height: int, fit: str, wide: int, high: int
) -> None:
    spec = Resize.model_validate({"width": wide, "height": high, "fit": fit, "interpolation": "nearest"})
    found, place = Resizer(spec)(Pillow.new("RGB", (width, height)))
    assert found.shape == (high, wide, 3)
    assert (place.width, place.height, place.input_width, place.input_height) == (width, height, wide, high)
    # The middle of the image is in the middle of where it lies.
    assert place.left + width / 2 * place.scale_x <= wide
