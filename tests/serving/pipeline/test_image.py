"""JPEG and PNG → tensors, against the plain definition written out here."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from registry.contract.pipeline import Image, Resize
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.prepared import Cost
from serving.runtimes.errors import InputError
from tests.serving.pipeline.made import before, inputs, jpeg, picture, png, row

NCHW = inputs(("image", Dtype.FP32, ("batch", 3, 6, 8)))
SIZE = Resize(width=8, height=6)


def prepared(step: Image, raw: bytes, signature: Signature = NCHW) -> Any:
    return row(before(step, signature).prepare(raw), "image")


def test_colours_layout_and_normalisation_are_those_of_training() -> None:
    pixels = picture(8, 6)
    step = Image(output="image", scale=1 / 255, mean=(0.5, 0.4, 0.3), std=(0.2, 0.1, 0.5))
    signature = inputs(("image", Dtype.FP32, ("batch", 3, "h", "w")))
    wanted = ((pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.1, 0.5]).transpose(2, 0, 1)
    found = prepared(step, png(pixels), signature)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    swapped = prepared(step.model_copy(update={"colour": "bgr"}), png(pixels[:, :, ::-1].copy()), signature)
    np.testing.assert_array_equal(swapped, found)


def test_rows_last_and_eight_bits() -> None:
    pixels = picture(8, 6)
    signature = inputs(("image", Dtype.UINT8, ("batch", 6, 8, 3)))
    np.testing.assert_array_equal(
        prepared(Image(output="image", layout="nhwc", resize=SIZE), png(pixels), signature), pixels
    )


def test_grey_is_one_channel() -> None:
    pixels = picture(8, 6)
    signature = inputs(("image", Dtype.FP32, ("batch", 1, 6, 8)))
    found = prepared(Image(output="image", colour="grey", resize=SIZE), png(pixels), signature)
    np.testing.assert_array_equal(found[0], np.asarray(Pillow.fromarray(pixels).convert("L")))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "LA"])
def test_every_kind_of_png_is_read(mode: str) -> None:
    found = prepared(Image(output="image", resize=SIZE), png(picture(16, 12), mode))
    assert found.shape == (3, 6, 8)


def test_a_jpeg_is_turned_only_where_training_did_so() -> None:
    pixels = picture(8, 6)
    exif = Pillow.Exif()
    exif[0x0112] = 6
    raw = jpeg(pixels, exif=exif)
    flat = inputs(("image", Dtype.FP32, ("batch", 3, "h", "w")))
    assert prepared(Image(output="image"), raw, flat).shape == (3, 6, 8)
    turned = prepared(Image(output="image", turn=True), raw, flat)
    np.testing.assert_array_equal(turned, np.rot90(prepared(Image(output="image"), raw, flat), -1, (1, 2)))


def bomb(width: int, height: int) -> bytes:
    """A PNG whose head promises a size, and no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def sixteen_bits() -> bytes:
    stream = io.BytesIO()
    Pillow.fromarray(np.arange(48, dtype=np.uint16).reshape(6, 8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "wanted JPEG or PNG, got 0 bytes"),
        (b"GIF89a" + bytes(40), "wanted JPEG or PNG"),
        (b"aGVsbG8=", "not base64"),
        (jpeg(picture(80, 60))[:900], "cut short or is damaged"),
        (png(picture(80, 60))[:900], "cut short or is damaged"),
        (bomb(100_000, 100_000), "at most 50000000 pixels, got 100000 × 100000"),
        (sixteen_bits(), "8 bits per channel"),
    ],
)
def test_bad_images_are_refused_with_what_to_do(raw: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        prepared(Image(output="image", resize=SIZE), raw)
    assert refused.value.mend


def test_the_limit_is_the_contracts() -> None:
    raw = png(picture(20, 20))
    assert prepared(Image(output="image", resize=SIZE, most_pixels=400), raw).shape == (3, 6, 8)
    with pytest.raises(InputError, match="at most 399 pixels"):
        prepared(Image(output="image", resize=SIZE, most_pixels=399), raw)


@pytest.mark.parametrize(
    ("step", "signature", "said"),
    [
        (Image(output="image", resize=Resize(width=6, height=8)), NCHW, "8 × 6 pixels"),
        (Image(output="image", colour="grey", resize=SIZE), NCHW, "1 channels"),
        (Image(output="image", layout="nhwc", resize=SIZE), NCHW, "nhwc"),
        (Image(output="image"), NCHW, "any × any"),
        (Image(output="image", resize=SIZE), inputs(("image", Dtype.INT64, ("b", 3, 6, 8))), "float type"),
        (
            Image(output="image", resize=SIZE, mean=(0.5,)),
            inputs(("image", Dtype.UINT8, ("b", 3, 6, 8))),
            "can't be normalised",
        ),
        (Image(output="image", resize=SIZE, std=(0.0,)), NCHW, "std has a 0"),
    ],
)
def test_what_does_not_fit_is_refused(step: Image, signature: Signature, said: str) -> None:
    with pytest.raises(PipelineMismatch, match=said):
        before(step, signature)


def test_decoding_is_always_for_a_worker() -> None:
    assert before(Image(output="image", resize=SIZE), NCHW).cost(10) is Cost.WORKER
