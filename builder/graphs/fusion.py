"""Chains of operators that exporters write out and no optimiser puts together again."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

SIXTH = 1 / 6
NEAR = 1e-6


def fuse_hard_swish(model: "onnx.ModelProto") -> int:
    """x · clip(x + 3, 0, 6) ÷ 6, four passes over memory, becomes x · hard-sigmoid(x), two; in place.

    Returns how many there were. The two Mul by 1⁄6 and Div by 6 are one; a chain that something else reads
    from the inside stays.
    """
    from onnx import helper

    from builder.graphs import walks

    graph = _Scalars(model)
    dropped: set[int] = set()
    instead: dict[int, list[onnx.NodeProto]] = {}
    for clip in model.graph.node:
        chain = graph.hard_swish(clip)
        if chain is None:
            continue
        x, nodes = chain
        last = nodes[-1]
        dropped.update(id(node) for node in nodes)
        inner = f"{last.output[0]}.hard_sigmoid"
        instead[id(last)] = [
            helper.make_node(
                "HardSigmoid", [x], [inner], f"{clip.output[0]}.hard_sigmoid", alpha=SIXTH, beta=0.5
            ),
            helper.make_node("Mul", [x, inner], list(last.output), f"{last.output[0]}.hard_swish"),
        ]
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        kept += instead.get(id(node), [] if id(node) in dropped else [node])
    copies = [walks.copy_of(node) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return len(instead)


class _Scalars:
    """Who makes and reads a tensor, and the stored numbers among them."""

    def __init__(self, model: "onnx.ModelProto") -> None:
        from onnx import numpy_helper

        self._numbers = {
            tensor.name: float(numpy_helper.to_array(tensor).reshape(-1)[0])
            for tensor in model.graph.initializer
            if _size(tensor) == 1
        }
        self._numbers |= {
            node.output[0]: float(numpy_helper.to_array(attribute.t).reshape(-1)[0])
            for node in model.graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value" and _size(attribute.t) == 1
        }
        self._made_by = {name: node for node in model.graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        self._outputs = {value.name for value in model.graph.output}

    def hard_swish(self, clip: "onnx.NodeProto") -> "tuple[str, list[onnx.NodeProto]] | None":
        """x and the four nodes, when `clip` is the second of such a chain."""
        if clip.op_type != "Clip" or [self._number(name) for name in clip.input[1:]] != [0.0, 6.0]:
            return None
        first, second = self._made_by.get(clip.input[0]), self._only_reader(clip)
        if first is None or first.op_type != "Add" or self._only_reader(first) is not clip or second is None:
            return None
        x = self._beside(first, 3.0)
        if x is None or second.op_type != "Mul" or x not in second.input:
            return None
        last = self._only_reader(second)
        if last is None or not self._divides_by_six(last):
            return None
        return x, [first, clip, second, last]

    def _divides_by_six(self, node: "onnx.NodeProto") -> bool:
        if node.op_type == "Div":
            return self._number(node.input[1]) == 6.0
        return node.op_type == "Mul" and self._beside(node, SIXTH) is not None

    def _beside(self, node: "onnx.NodeProto", number: float) -> str | None:
        """The other input of a node one of whose inputs is `number`."""
        for at, name in enumerate(node.input):
            found = self._number(name)
            if found is not None and abs(found - number) < NEAR and len(node.input) == 2:
                return str(node.input[1 - at])
        return None

    def _number(self, name: str) -> float | None:
        return self._numbers.get(name)

    def _only_reader(self, node: "onnx.NodeProto") -> "onnx.NodeProto | None":
        name = node.output[0]
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._outputs else None


def _size(tensor: "onnx.TensorProto") -> int:
    from onnx import TensorProto

    if tensor.data_type != TensorProto.FLOAT:
        return 0
    size = 1
    for one in tensor.dims:
        size *= one
    return size
