"""PyTorch → an engine in PyTorch's own format, for what doesn't convert to ONNX.

A file that has the wanted format already is taken byte for byte. Only state-dicts with their source are
turned into a program or a script here; between the two formats PyTorch has no safe way, and none is tried.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from builder.frontends.plan import Format
from builder.frontends.pytorch import (
    Loaded,
    example_of,
    load,
    order_of,
    output_names,
    reference_of,
    tensor_of,
)
from builder.frontends.request import Converted, Request
from builder.steps.step import Refused
from registry.contract.versions import Signature, TensorSpec
from serving.runtimes.torch import Kind


@dataclass(frozen=True, slots=True)
class Native:
    """`signature`: inputs in the order of the call, outputs in the order of the answer."""

    content: bytes
    signature: Signature
    converted: Converted


def native(request: Request, format: Format, kind: Kind) -> Native:
    """Raises Refused."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    program, module = load(request, format)
    order = order_of(request, module, program)
    example = example_of(request)
    arguments = tuple(tensor_of(example.tensors[spec.name]) for spec in order)
    outputs = output_names(request, module, arguments)
    content, maker = _content(request, format, kind, module, order, arguments)
    by_name = {spec.name: spec for spec in request.signature.outputs}
    signature = Signature(inputs=order, outputs=tuple(by_name[name] for name in outputs if name in by_name))
    loaded = Loaded(module, order, outputs)
    converted = Converted(
        exporter=f"{maker} {torch.__version__}",
        produced=tuple(by_name),
        reference=lambda inputs: reference_of(loaded, inputs),
    )
    return Native(content, signature, converted)


def _content(
    request: Request,
    format: Format,
    kind: Kind,
    module: Any,
    order: tuple[TensorSpec, ...],
    arguments: tuple[Any, ...],
) -> tuple[bytes, str]:
    """The file and who made it."""
    whole = request.source.part is None
    if (format, kind) == (Format.TORCH_EXPORT, "torch") or (
        (format, kind) == (Format.TORCHSCRIPT, "torchscript") and whole
    ):
        return request.path.read_bytes(), "as it came, for torch"
    if format is Format.TORCHSCRIPT and kind == "torchscript":
        return _saved(lambda buffer: _save_script(module, buffer)), "the named part of TorchScript, by torch"
    assert format is Format.TORCH_SOURCE, "the step refuses a file of the other format"
    if kind == "torchscript":
        return _saved(lambda buffer: _save_script(_scripted(module), buffer)), "torch.jit.script of torch"
    return _exported(module, order, arguments), "torch.export of torch"


def _scripted(module: Any) -> Any:
    import torch

    try:
        return torch.jit.script(module)
    except Exception as error:  # whatever the module's code makes of it
        raise Refused(
            f"torch.jit.script refuses the module: {_first(error)}; build it for torch.cpu"
        ) from error


def _exported(module: Any, order: tuple[TensorSpec, ...], arguments: tuple[Any, ...]) -> bytes:
    import torch

    axes: dict[str, Any] = {}
    dynamic = tuple(
        {
            axis: axes.setdefault(size, torch.export.Dim.AUTO)
            for axis, size in enumerate(spec.shape)
            if isinstance(size, str)
        }
        for spec in order
    )
    try:
        program = torch.export.export(module, arguments, dynamic_shapes=dynamic, strict=False)
    except Exception as error:  # whatever the module's code makes of it
        raise Refused(
            f"torch.export refuses the module: {_first(error)}; build it for torchscript.cpu"
        ) from error
    return _saved(lambda buffer: torch.export.save(program, buffer))


def _save_script(module: Any, buffer: io.BytesIO) -> None:
    import torch

    torch.jit.save(module, buffer)


def _saved(save: Callable[[io.BytesIO], None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:300]
