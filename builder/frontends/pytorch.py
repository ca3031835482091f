"""PyTorch → ONNX: programs of torch.export, TorchScript, and state-dicts with their source.

The dynamo exporter is tried first; where it fails the older one, which traces, is taken, and the record says
so and why. TorchScript can be read by the older one only.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.data.samples import Sample, stack
from builder.frontends import torchsource
from builder.frontends.plan import Format
from builder.frontends.request import Array, Converted, Request
from builder.frontends.torchtrace import Trace, refuse_packed, trace, where_in_program, where_in_script
from builder.steps.sample import made_up
from builder.steps.step import Refused
from registry.contract.versions import TensorSpec

if TYPE_CHECKING:
    import onnx

LEGACY_NEWEST_OPSET = 20
EXAMPLE_ROWS = 2


@dataclass(frozen=True, slots=True)
class Loaded:
    """`call` takes tensors in `order` and returns the outputs, flat, by the names in `outputs`."""

    module: Any
    order: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]


def convert(request: Request, format: Format, out_model: Callable[["onnx.ModelProto"], None]) -> Converted:
    """Hands the model to `out_model`. Raises Refused."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    program, module = load(request, format)
    example = example_of(request)
    order = order_of(request, module, program)
    arguments = tuple(tensor_of(example.tensors[spec.name]) for spec in order)
    traced = trace(module, arguments)
    refuse_packed(module, program, traced)
    outputs = output_names(request, module, arguments)
    loaded = Loaded(module, order, outputs)
    with _quiet():
        model, exporter, notes = _exported(request, format, program, loaded, arguments, traced)
    out_model(model)
    return Converted(
        exporter=f"{exporter} {torch.__version__}",
        produced=tuple(spec.name for spec in request.signature.outputs),
        reference=lambda inputs: reference_of(loaded, inputs),
        notes=notes,
    )


def load(request: Request, format: Format) -> tuple[Any, Any]:
    """The program of torch.export, where it is one, and a module that can be called."""
    import torch

    if format is Format.TORCH_SOURCE:
        return None, torchsource.load(request)
    if format is Format.TORCH_EXPORT:
        try:
            program = torch.export.load(request.path)
        except Exception as error:  # a damaged archive, an unknown operator, another release's schema
            raise Refused(
                f"{request.main} is no program that torch {torch.__version__} loads: {_first(error)}; save "
                "it with torch.export.save"
            ) from error
        _refuse_frozen(request, program)
        return program, program.module(check_guards=False)
    try:
        module = torch.jit.load(str(request.path), map_location="cpu").eval()
    except Exception as error:
        raise Refused(
            f"{request.main} is no TorchScript file ({_first(error)}); a state-dict alone holds no model: "
            "save with torch.export.save or script.save, or register its source too and name what makes the "
            "module (source.entry)"
        ) from error
    for name in (request.source.part or "").split(".") if request.source.part else ():
        if not hasattr(module, name):
            raise Refused(
                f"the TorchScript file has no part {request.source.part!r} (source.part); it has "
                f"{', '.join(child for child, _ in module.named_children())}"
            )
        module = getattr(module, name)
    return None, module


def _refuse_frozen(request: Request, program: Any) -> None:
    """A program keeps the axes that it was exported with."""
    import torch

    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    by_name = {node.name: node for node in inputs if node.name in program.graph_signature.user_inputs}
    specs = request.signature.inputs
    names = [spec.name for spec in specs] if by_name.keys() == {s.name for s in specs} else list(by_name)
    if len(names) != len(specs):
        raise Refused(
            f"the program takes {len(names)} inputs ({', '.join(names)}) and the contract names "
            f"{len(specs)}; register a version whose contract names them all"
        )
    for name, spec in zip(names, specs, strict=True):
        shape = by_name[name].meta["val"].shape
        for axis, (real, wanted) in enumerate(zip(shape, spec.shape, strict=False)):
            if isinstance(wanted, str) and not isinstance(real, torch.SymInt):
                raise Refused(
                    f"the contract lets axis {axis} ({wanted}) of input {spec.name!r} vary, and the program "
                    f"has it frozen at {real}; export it again with that axis in dynamic_shapes and an "
                    "example of at least 2 there (an example batch of 1 is frozen). torch.export unrolls an "
                    "LSTM or GRU over its length: for one of varying length register TorchScript, or its "
                    "state-dict and source"
                )


def example_of(request: Request) -> Sample:
    """Two rows, never one, unless the contract fixes the batch: real ones where there are any."""
    rows = list(request.samples[:1]) or made_up(request.signature, 1)
    varies = request.max_rows > 1 and all(isinstance(spec.shape[0], str) for spec in request.signature.inputs)
    if not varies:
        return rows[0]
    return Sample(rows[0].key, stack([rows[0].tensors] * EXAMPLE_ROWS))


def order_of(request: Request, module: Any, program: Any) -> tuple[TensorSpec, ...]:
    """The contract's inputs as the module takes them: by its parameters' names where they agree."""
    specs = request.signature.inputs
    names = _parameters(module) if program is None else list(program.graph_signature.user_inputs)
    by_name = {spec.name: spec for spec in specs}
    if by_name.keys() <= set(names):
        return tuple(by_name[name] for name in names if name in by_name)
    return specs


def _parameters(module: Any) -> list[str]:
    import inspect

    schema = getattr(getattr(module, "forward", None), "schema", None)
    if schema is not None:
        return [argument.name for argument in schema.arguments[1:]]
    return list(inspect.signature(module.forward).parameters)


def tensor_of(array: Array) -> Any:
    import torch

    if array.dtype == object:
        raise Refused(
            "PyTorch has no tensors of text; turn texts into numbers in the version's pre-processing"
        )
    return torch.from_numpy(np.array(array))


def output_names(request: Request, module: Any, arguments: tuple[Any, ...]) -> tuple[str, ...]:
    """A name for each flat output: the contract's own, in its order or by the keys of a dictionary."""
    import torch

    wanted = [spec.name for spec in request.signature.outputs]
    with torch.no_grad():
        found = module(*arguments)
    flat = torch.utils._pytree.tree_flatten(found)[0]
    if isinstance(found, dict) and set(wanted) <= found.keys():
        names = [str(key) for key in found]
    else:
        names = [*wanted, *(f"unnamed_{at}" for at in range(len(wanted), len(flat)))]
    if len(names) != len(flat) or not all(isinstance(value, torch.Tensor) for value in flat):
        raise Refused(
            f"the module answers {len(flat)} values ({', '.join(type(value).__name__ for value in flat)}), "
            f"and the contract names {len(wanted)} outputs ({', '.join(wanted)}); every one must be a "
            "tensor, the contract's first"
        )
    return tuple(names)


def reference_of(loaded: Loaded, inputs: Mapping[str, Array]) -> dict[str, Array]:
    import torch

    with torch.no_grad():
        found = loaded.module(*(tensor_of(inputs[spec.name]) for spec in loaded.order))
    flat = torch.utils._pytree.tree_flatten(found)[0]
    return {name: value.numpy() for name, value in zip(loaded.outputs, flat, strict=True)}


def _exported(
    request: Request,
    format: Format,
    program: Any,
    loaded: Loaded,
    arguments: tuple[Any, ...],
    traced: Trace,
) -> tuple["onnx.ModelProto", str, tuple[str, ...]]:
    """The model, the exporter's name, and what is to be said of it."""
    wanted = request.options.exporter
    if format is Format.TORCHSCRIPT and wanted == "dynamo":
        raise Refused(
            "the dynamo exporter doesn't read TorchScript; leave recipe.importing.exporter at 'auto', or "
            "save the model with torch.export.save"
        )
    reason = "TorchScript" if format is Format.TORCHSCRIPT else _unrolls(request, loaded, program)
    failures: list[Exception] = []
    if wanted != "legacy" and not reason:
        try:
            return _dynamo(request, program, loaded, arguments), "torch.onnx-dynamo", ()
        except Exception as error:  # torch.export, decompositions, onnxscript: each has its own
            if wanted == "dynamo":
                raise Refused(_why_not(error, loaded, program, traced)) from error
            failures.append(error)
            reason = _first(error)
    try:
        model = _legacy(request, program, loaded, arguments)
    except Exception as error:
        raise Refused(_why_not(failures[0] if failures else error, loaded, program, traced)) from error
    note = "asked for" if wanted == "legacy" else f"because of the other: {reason}"
    return model, "torch.onnx-legacy", (f"exported by the older exporter, {note}",)


def _unrolls(request: Request, loaded: Loaded, program: Any) -> str:
    """torch.export unrolls a recurrent layer over its length, which then can't vary: no need to wait for
    it."""
    import torch

    recurrent = program is None and any(
        isinstance(module, torch.nn.RNNBase) for module in loaded.module.modules()
    )
    varies = any(isinstance(size, str) for spec in request.signature.inputs for size in spec.shape[1:])
    return (
        "it unrolls recurrent layers over their length, which may vary here" if recurrent and varies else ""
    )


def _dynamo(request: Request, program: Any, loaded: Loaded, arguments: tuple[Any, ...]) -> "onnx.ModelProto":
    import torch

    if program is None:
        dynamic = [
            {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(spec.shape) if isinstance(size, str)}
            for spec in loaded.order
        ]
        program = torch.export.export(loaded.module, arguments, dynamic_shapes=tuple(dynamic), strict=False)
    made = torch.onnx.export(
        program,
        dynamo=True,
        opset_version=request.wanted_opset,
        input_names=[spec.name for spec in loaded.order],
        output_names=list(loaded.outputs),
        verbose=False,
        optimize=True,
    )
    assert made is not None
    proto: onnx.ModelProto = made.model_proto
    return proto


def _legacy(request: Request, program: Any, loaded: Loaded, arguments: tuple[Any, ...]) -> "onnx.ModelProto":
    import io

    import onnx
    import torch

    module = loaded.module
    if program is not None:
        module = torch.jit.trace(_unhooked(module), arguments, check_trace=False)
    sink = io.BytesIO()
    dynamic = {
        spec.name: {axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str)}
        for spec in (*request.signature.inputs, *request.signature.outputs)
    }
    torch.onnx.export(
        module,
        arguments,
        sink,
        dynamo=False,
        opset_version=min(request.wanted_opset, LEGACY_NEWEST_OPSET),
        input_names=[spec.name for spec in loaded.order],
        output_names=list(loaded.outputs),
        dynamic_axes={name: axes for name, axes in dynamic.items() if axes},
    )
    return onnx.load_model_from_string(sink.getvalue())


def _unhooked(module: Any) -> Any:
    """A program's module without the checks of its inputs' shapes, which can't be traced."""
    import torch

    class Unhooked(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *arguments: Any) -> Any:
            return self.inner.forward(*arguments)

    return Unhooked()


def _why_not(error: Exception, loaded: Loaded, program: Any, traced: Trace) -> str:
    """Names the operator, and the module that it belongs to, as far as they can be told."""
    text = _whole(error)
    operator = traced.named_in(text)
    found = [
        place
        for place in (
            traced.modules.get(operator, ""),
            where_in_program(program, operator),
            where_in_script(loaded.module, operator),
        )
        if place
    ]
    what = f"operator {operator}{f' of module {found[0]!r}' if found else ''}" if operator else "the module"
    return (
        f"{what} can't be converted to ONNX ({_first(error)}); replace it by operators that ONNX has, do "
        "that part in the version's pre- or post-processing, or keep the model as it is: a TorchScript file "
        "runs on the target torchscript.cpu"
    )


def _whole(error: BaseException) -> str:
    """All of a chain of errors: the cause names the operator."""
    return "\n".join(str(found) for found in reversed(list(_chain(error))))


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _first(error: BaseException) -> str:
    """The first line of the innermost error: what lies around it says where, not what."""
    *_, innermost = _chain(error)
    lines = [line.strip() for line in str(innermost).splitlines() if line.strip()]
    return (lines[0] if lines else type(innermost).__name__)[:300]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn of what the comparison afterwards proves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
