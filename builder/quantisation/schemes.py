"""Which nodes are quantised, by which scheme, and which tensors need ranges for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builder.steps.step import Refused
from registry.contract.identity import TargetName

if TYPE_CHECKING:
    import onnx

# What is safe to quantise without trying: convolutions keep their answers, while quantising every
# multiplication of a transformer or every layer of a detector destroys them with size and speed looking fine.
STATIC_FIRST = ("Conv",)
STATIC_WITHOUT_CONV = ("Gemm", "MatMul")
DYNAMIC = ("Attention", "Conv", "EmbedLayerNormalization", "Gather", "LSTM", "MatMul", "Transpose")

# What a search tries where the default is too slow: all that CPUs multiply fastest in INT8.
WIDE = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a runtime wants of a static INT8 file: a file for one doesn't load in another, or loads slow.

    `signed`: activations are signed and symmetric around zero. `quantise_bias`: biases become int32.
    `proven_by`: the target that loads the ONNX file itself; others compile it in a step of their own.
    """

    name: str
    signed: bool
    quantise_bias: bool
    proven_by: TargetName


def scheme_of(target: TargetName) -> Scheme:
    tensorrt = target.startswith(("tensorrt", "ort.tensorrt"))
    proven_by = target if target.startswith("ort.") and not tensorrt else "ort.cpu"
    if tensorrt:
        return Scheme("S8S8", signed=True, quantise_bias=False, proven_by=proven_by)
    return Scheme("U8S8", signed=False, quantise_bias=True, proven_by=proven_by)


def static_operators(model: "onnx.ModelProto", asked: Sequence[str]) -> tuple[str, ...]:
    """`asked`, or the default for this graph."""
    if asked:
        return tuple(asked)
    has_conv = any(node.op_type in STATIC_FIRST for node in model.graph.node)
    return STATIC_FIRST if has_conv else STATIC_WITHOUT_CONV


def choose_nodes(model: "onnx.ModelProto", operators: Sequence[str], excluded: Sequence[str]) -> list[str]:
    """Names of the nodes to quantise. Raises Refused when an excluded node isn't there or none is left."""
    names = {node.name for node in model.graph.node if node.name}
    unknown = [name for name in excluded if name not in names]
    if unknown:
        raise Refused(
            f"int8.exclude_nodes names {', '.join(map(repr, unknown))}, which the graph doesn't have; nodes "
            "of the "
            f"chosen operators are {', '.join(_named(model, operators)) or 'none'}"
        )
    chosen = [name for name in _named(model, operators) if name not in excluded]
    if not chosen:
        has = ", ".join(sorted({node.op_type for node in model.graph.node}))
        raise Refused(
            f"there is nothing to quantise: the graph has no {' or '.join(operators)} that isn't excluded "
            f"(it has {has}); choose others with int8.operators, or leave this precision out"
        )
    return chosen


def _named(model: "onnx.ModelProto", operators: Sequence[str]) -> list[str]:
    return [
        node.name for node in model.graph.node if node.op_type in operators and node.domain in ("", "ai.onnx")
    ]


def name_nodes(model: "onnx.ModelProto") -> None:
    """Gives a name to every node that has none: the quantiser selects by name."""
    taken = {node.name for node in model.graph.node}
    for at, node in enumerate(model.graph.node):
        if not node.name:
            name = f"{node.op_type}_{at}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)


def float_tensors(model: "onnx.ModelProto", chosen: Sequence[str]) -> list[str]:
    """Float activations into and out of the chosen nodes, in graph order. Needs inferred shapes."""
    import onnx

    stored = {tensor.name for tensor in model.graph.initializer}
    known = (*model.graph.value_info, *model.graph.output, *model.graph.input)
    floats = {
        value.name
        for value in known
        if value.type.tensor_type.elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    }
    nodes = set(chosen)
    found: dict[str, None] = {}
    for node in model.graph.node:
        if node.name in nodes:
            for name in (*node.input, *node.output):
                if name in floats and name not in stored:
                    found[name] = None
    return list(found)
