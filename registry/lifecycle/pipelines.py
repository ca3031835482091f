"""Do a version's pre-processing steps make what its model takes? Pure."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from registry.contract.pipeline import (
    ByteWindow,
    Image,
    JsonTensors,
    PreStep,
    Table,
    Tokenise,
    Window,
)
from registry.contract.versions import Dtype, TensorSpec, VersionContract

_FLOATS = (Dtype.FP16, Dtype.FP32, Dtype.FP64)
_IDS = (Dtype.INT32, Dtype.INT64)


def pre_faults(contract: VersionContract) -> Iterator[str]:
    """Every input is made once, in the shape and type that the signature has."""
    inputs = {tensor.name: tensor for tensor in contract.signature.inputs}
    made: list[str] = []
    for step in contract.pipeline.pre or (JsonTensors(),):
        made += made_by(step, list(inputs))
    if sorted(made) != sorted(inputs):
        yield f"pre-processing makes {', '.join(made)}, but the inputs are {', '.join(inputs) or 'none'}"
        return
    for step in contract.pipeline.pre:
        yield from _step_faults(step, inputs)


def made_by(step: PreStep, inputs: Sequence[str]) -> list[str]:
    """The inputs that a step makes."""
    match step:
        case JsonTensors():
            return list(inputs)
        case Tokenise():
            return list(step.outputs)
        case ByteWindow() | Image() | Table() | Window():
            return [step.output]
        case _:
            assert_never(step)


def file_faults(contract: VersionContract, paths: Sequence[str]) -> Iterator[str]:
    for path in contract.pipeline.files:
        if path not in paths:
            yield (
                f"the pipeline reads {path!r}, which is no file of this version; declare and upload it "
                f"(the files are {', '.join(paths[:10])})"
            )


def _step_faults(step: PreStep, inputs: dict[str, TensorSpec]) -> Iterator[str]:
    match step:
        case JsonTensors() | ByteWindow():
            return
        case Tokenise():
            yield from _token_faults(step, [inputs[name] for name in step.outputs])
        case Image():
            yield from _image_faults(step, inputs[step.output])
        case Table():
            yield from _table_faults(step, inputs[step.output])
        case Window():
            yield from _window_faults(step, inputs[step.output])
        case _:
            assert_never(step)


def _described(tensor: TensorSpec) -> str:
    return f"{tensor.name!r} is {tensor.dtype.value}[{', '.join(map(str, tensor.shape))}]"


def _token_faults(step: Tokenise, tensors: Sequence[TensorSpec]) -> Iterator[str]:
    for tensor in tensors:
        if tensor.dtype not in _IDS or len(tensor.shape) != 2:
            yield f"tokenise makes INT32 or INT64 [rows, length], but {_described(tensor)}"
            return
    lengths = {tensor.shape[1] for tensor in tensors}
    if len(lengths) > 1:
        names = ", ".join(str(tensor.name) for tensor in tensors)
        yield f"{names} have different lengths in the signature; ids, mask and types are one length"
        return
    yield from _padding_faults(step, lengths.pop())


def _padding_faults(step: Tokenise, length: int | str) -> Iterator[str]:
    padding = step.padding
    if padding is None:
        what = (
            f"takes texts of any length ({length!r} varies)"
            if isinstance(length, str)
            else f"takes {length} tokens"
        )
        yield (
            f"{step.ids!r} {what} and has no padding rule, so rows could be filled otherwise than in "
            "training: set tokenise.padding (masking, side, id as the training code pads; masking 'none' if "
            "it never pads)"
        )
        return
    if isinstance(length, int) and not (padding.fixed and step.max_length == length):
        yield (
            f"{step.ids!r} takes {length} tokens always: set max_length to {length} and padding.fixed, or "
            "name the axis"
        )
    if padding.masking == "mask" and step.mask is None:
        yield (
            "padding.masking is 'mask' and tokenise makes none: name the model's mask input in "
            "tokenise.mask, or say how it tells padding from text"
        )
    if padding.fixed and padding.multiple > 1:
        yield "padding is fixed to max_length and to a multiple: choose one"


def _image_faults(step: Image, tensor: TensorSpec) -> Iterator[str]:
    if tensor.dtype not in (*_FLOATS, Dtype.UINT8) or len(tensor.shape) != 4:
        yield f"image makes {step.layout.upper()} of a float type or UINT8, but {_described(tensor)}"
        return
    channels, height, width = (
        tensor.shape[1:] if step.layout == "nchw" else (tensor.shape[3], *tensor.shape[1:3])
    )
    resize = step.resize
    size = (resize.height, None if resize.longest else resize.width) if resize else (None, None)
    wanted = (("channels", channels, step.channels), ("rows", height, size[0]), ("columns", width, size[1]))
    for what, axis, made in wanted:
        if isinstance(axis, int) and axis != made:
            yield (
                f"image makes {made or 'any number of'} {what} in {step.layout}, but {_described(tensor)}: "
                "set colour, layout and resize as in training"
            )
    if tensor.dtype is Dtype.UINT8 and (step.scale != 1 or step.mean or step.std):
        yield f"{tensor.name!r} is UINT8, so it can't be normalised: leave scale, mean and std out"
    if resize and resize.longest is not None and (resize.fit != "height" or resize.longest < resize.width):
        yield "resize.longest is for fit 'height', and at least the width"
    short = resize.shorter if resize else None
    if resize and short and (resize.fit != "crop" or short < max(resize.width, resize.height)):
        yield "resize.shorter is for fit 'crop', and at least the width and the height"
    yield from _normal_faults("image", step.mean, step.std, step.channels)


def _normal_faults(what: str, mean: Sequence[float], std: Sequence[float], channels: int) -> Iterator[str]:
    for name, numbers in (("mean", mean), ("std", std)):
        if len(numbers) not in (0, 1, channels):
            yield f"{what}.{name} has {len(numbers)} numbers for {channels} channels: give one, or one each"
    if 0 in std:
        yield f"{what}.std has a 0: nothing can be divided by it"


def _table_faults(step: Table, tensor: TensorSpec) -> Iterator[str]:
    if tensor.dtype in (Dtype.BYTES, Dtype.BOOL) or len(tensor.shape) != 2:
        yield f"table makes numbers [rows, columns], but {_described(tensor)}"
        return
    if isinstance(tensor.shape[1], int) and tensor.shape[1] != step.width:
        yield f"table makes {step.width} numbers per row, but {_described(tensor)}"
    names = [column.name for column in step.columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"table lists the column {name!r} twice"
    for column in step.columns:
        if len(set(column.categories)) != len(column.categories):
            yield f"column {column.name!r} lists a category twice"
        if column.one_hot and not column.categories:
            yield f"column {column.name!r} is one-hot and has no categories"
        if column.missing == "nan" and tensor.dtype not in _FLOATS:
            yield f"column {column.name!r} gives NaN for what is missing, and {tensor.name!r} is no float"


def _window_faults(step: Window, tensor: TensorSpec) -> Iterator[str]:
    if tensor.dtype in (Dtype.BYTES, Dtype.BOOL) or len(tensor.shape) not in (2, 3):
        yield f"window makes numbers [rows, length] or with a channel axis, but {_described(tensor)}"
        return
    last = step.channels == "last" or len(tensor.shape) == 2
    length = tensor.shape[1] if last else tensor.shape[2]
    if isinstance(length, int) and length != step.length:
        yield f"window makes {step.length} steps ({step.channels} axis: channels), but {_described(tensor)}"
    channels = 1 if len(tensor.shape) == 2 else tensor.shape[2] if last else tensor.shape[1]
    if isinstance(channels, int):
        yield from _normal_faults("window", step.mean, step.std, channels)
