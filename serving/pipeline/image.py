"""JPEG or PNG bytes → one image tensor."""

import io
from typing import TYPE_CHECKING

import numpy as np

from registry.contract.pipeline import Image, Resize
from registry.contract.versions import Dtype, Signature
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.normalise import Normalise
from serving.pipeline.prepared import Cost, Place, Prepared
from serving.pipeline.resize import Resizer, pixels_of
from serving.pipeline.specs import input_spec
from serving.runtimes.dtypes import FLOATS, numpy_dtype
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

if TYPE_CHECKING:
    from PIL import Image as Pillow

# What 8 bits per channel can hold.
_MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "La", "RGBa"})


class ImageStep:
    """[1, channels, height, width] or [1, height, width, channels], of the signature's type."""

    def __init__(self, spec: Image, signature: Signature) -> None:
        """Raises PipelineMismatch."""
        tensor = input_spec(signature, spec.output, "image")
        if len(tensor.shape) != 4 or tensor.dtype not in (*FLOATS, Dtype.UINT8):
            raise PipelineMismatch(
                f"image makes {spec.layout.upper()} of a float type or UINT8, but {spec.output!r} is "
                f"{tensor.dtype.value}{list(tensor.shape)}"
            )
        self._spec = spec
        self._dtype = numpy_dtype(tensor.dtype)
        self._normalise = Normalise("image", spec.mean, spec.std, spec.scale)
        if tensor.dtype is Dtype.UINT8 and self._normalise.changes:
            raise PipelineMismatch(f"{spec.output!r} is UINT8, so it can't be normalised")
        self._resize = Resizer(spec.resize) if spec.resize is not None else None
        _check_shape(spec, spec.resize, tensor.shape)

    def cost(self, size: int) -> Cost:
        return Cost.WORKER

    def prepare(self, raw: bytes) -> Prepared:
        """Raises InputError: no JPEG or PNG, cut short, too many pixels, more than 8 bits a channel."""
        image = decoded(raw, self._spec)
        if self._resize is None:
            pixels = pixels_of(image)
            place = Place(image.width, image.height, image.width, image.height)
        else:
            pixels, place = self._resize(image)
        if self._spec.colour == "bgr":
            pixels = pixels[:, :, ::-1]
        values = self._normalise(pixels, self._dtype)
        if self._resize is not None and self._spec.fill_normalised:
            _clear_outside(values, self._resize.filled(place))
        if self._spec.layout == "nchw":
            values = values.transpose(2, 0, 1)
        return Prepared({self._spec.output: np.ascontiguousarray(values[np.newaxis])}, place)


def decoded(raw: bytes, spec: Image) -> "Pillow.Image":
    """RGB or L. The size is read from the head, and refused before a pixel is decoded. Raises InputError."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    # Ours is the limit, and it is checked before anything is decoded; Pillow's own only warns.
    Pillow.MAX_IMAGE_PIXELS = None
    try:
        image: Pillow.Image = Pillow.open(io.BytesIO(raw), formats=("JPEG", "PNG"))
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(
            "image",
            wanted="JPEG or PNG",
            got=f"{len(raw)} bytes that begin with {raw[:8]!r}",
            mend="send the file's own bytes, not base64 or a form",
        ) from error
    if image.width * image.height > spec.most_pixels:
        raise InputError(
            "image",
            wanted=f"at most {spec.most_pixels} pixels",
            got=f"{image.width} × {image.height}",
            mend="send it smaller: the model sees it at its own size anyway",
        )
    if image.mode not in _MODES:
        raise InputError(
            "image", wanted="8 bits per channel", got=f"mode {image.mode}", mend="convert it to 8 bits"
        )
    try:
        image.load()
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(
            "image",
            wanted="a whole file",
            got=f"one that can't be decoded ({error})",
            mend="send it again: it was cut short or is damaged",
        ) from error
    if spec.turn:
        image = ImageOps.exif_transpose(image)
    return image.convert("L" if spec.colour == "grey" else "RGB")


def _check_shape(spec: Image, resize: Resize | None, shape: tuple[int | str, ...]) -> None:
    channels, *size = shape[1:] if spec.layout == "nchw" else (shape[3], *shape[1:3])
    made: list[int | None] = [None, None]
    if resize is not None:
        made = [resize.height, None if resize.longest else resize.width]
    for axis, got in zip((channels, *size), (spec.channels, *made), strict=True):
        if isinstance(axis, int) and axis != got:
            raise PipelineMismatch(
                f"image makes {spec.channels} channels of {made[0] or 'any'} × {made[1] or 'any'} pixels "
                f"({spec.layout}), but {spec.output!r} is {list(shape)}"
            )


def _clear_outside(values: Array, edges: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = edges
    values[:top], values[bottom:] = 0, 0
    values[:, :left], values[:, right:] = 0, 0
