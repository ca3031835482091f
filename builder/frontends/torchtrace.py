"""Which operators a PyTorch model runs, and in which of its modules: so that a refusal can name both."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from builder.steps.step import Refused

PACKED = "aten::_pack_padded_sequence"
_NAMED = re.compile(r"\b([a-z_][a-z0-9_]*)(?:::|\.)([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(slots=True)
class Trace:
    """`modules`: operator (`aten::add`) → path of the module that ran it first."""

    modules: dict[str, str] = field(default_factory=dict)

    def named_in(self, text: str) -> str:
        """The first operator of this model, or of PyTorch, that an error names; empty where none is."""
        found = [f"{space}::{name}" for space, name in _NAMED.findall(text)]
        for name in found:
            # A decomposition of an operator ends like the operator itself: prims::j0 of aten::special_j0.
            short = name.partition("::")[2]
            ours = [known for known in self.modules if known == name or known.endswith(f"_{short}")]
            if ours and len(short) > 1:
                return ours[0]
        return next((name for name in found if name.startswith(("aten::", "prim::", "prims::"))), "")


def trace(module: Any, arguments: tuple[Any, ...]) -> Trace:
    """Runs the model once. Raises Refused when it fails on inputs that the contract allows."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found = Trace()
    path: list[str] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = function.name() if hasattr(function, "name") else str(function)
            found.modules.setdefault(name.partition(".")[0], path[-1] if path else "")
            return function(*args, **(kwargs or {}))

    hooks = []
    if not isinstance(module, torch.jit.ScriptModule):
        for name, part in module.named_modules():
            hooks.append(part.register_forward_pre_hook(lambda *_, name=name: path.append(name)))
            hooks.append(part.register_forward_hook(lambda *_: path.pop() and None))
    try:
        with torch.no_grad(), Recorder():
            module(*arguments)
    except Exception as error:  # it is the model's own code
        lines = str(error).strip().splitlines() or [type(error).__name__]
        shapes = ", ".join(str(list(argument.shape)) for argument in arguments)
        raise Refused(
            f"the model itself fails on inputs of shape {shapes}, which the contract allows: "
            f"{lines[-1][:300]}; correct the contract, or save the model again with these axes dynamic"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return found


def refuse_packed(module: Any, program: Any, traced: Trace) -> None:
    """Packed sequences have no form in ONNX, and tracing one freezes the lengths of the example."""
    places = (
        traced.modules.get(PACKED, ""),
        where_in_program(program, PACKED),
        where_in_script(module, PACKED),
    )
    place = next((found for found in places if found), "")
    if not place and PACKED not in traced.modules:
        return
    where = f"module {place!r}" if place else "the module"
    raise Refused(
        f"{where} uses pack_padded_sequence, which no exporter can bring to ONNX for lengths that vary; run "
        "the recurrent layer over the whole padded batch and leave the padding out afterwards with a mask: "
        "output = output * mask.unsqueeze(-1), then a mean over mask.sum(1), or the last state gathered at "
        "mask.sum(1) - 1; a bidirectional layer reads the padding first in its backward direction, so train "
        "it that way too"
    )


def where_in_program(program: Any, operator: str) -> str:
    """The module of the first node with this operator in a program of torch.export; empty where there is
    none."""
    if program is None or not operator:
        return ""
    for node in program.graph.nodes:
        name = node.target.name() if hasattr(node.target, "name") else ""
        if node.op == "call_function" and str(name).partition(".")[0] == operator:
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            return str(stack[-1][0]) if stack else ""
    return ""


def where_in_script(module: Any, operator: str) -> str:
    """The line of source of the first node with this operator in a TorchScript module; empty where none
    is."""
    import torch

    if not isinstance(module, torch.jit.ScriptModule) or not operator:
        return ""
    for node in _script_nodes(module.inlined_graph):
        if node.kind() == operator:
            return str(node.scopeName() or " ".join(str(node.sourceRange()).split())[:120] or "forward")
    return ""


def _script_nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _script_nodes(inner)
