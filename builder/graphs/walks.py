"""Reading ONNX graphs: walks and counts that several steps share."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import onnx

M = TypeVar("M", onnx.NodeProto, onnx.TensorProto)
ONNX_DOMAINS = ("", "ai.onnx")


def read_graph(path: Path) -> onnx.ModelProto:
    """The model without its external data. Raises google.protobuf's DecodeError."""
    return onnx.load(str(path), load_external_data=False)


def copy_of(message: M) -> M:
    """A graph's lists own what is in them: it goes away with the list."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs and local functions included."""
    yield from _nodes_of(model.graph.node)
    for function in model.functions:
        yield from _nodes_of(function.node)


def _nodes_of(sequence: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in sequence:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes_of(graph.node)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All stored tensors: initializers (dense ones) and constants in attributes, subgraphs included."""
    yield from model.graph.initializer
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer


def opset(model: onnx.ModelProto) -> int:
    """Of ONNX's own domain; 0 where the model doesn't say."""
    return next((entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS), 0)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator occurs; others' operators as `domain.name`."""
    return Counter(
        node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}.{node.op_type}"
        for node in nodes(model)
    )


def input_names(model: onnx.ModelProto) -> tuple[str, ...]:
    """Inputs that a caller must give: those without a default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return tuple(value.name for value in model.graph.input if value.name not in defaults)
