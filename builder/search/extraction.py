"""One operator of a graph as a model of its own."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from builder.data.samples import Array

if TYPE_CHECKING:
    import onnx


class Graph:
    """A model's tensors and what makes them."""

    def __init__(self, model: "onnx.ModelProto") -> None:
        self.model = model
        self._made_by = {name: at for at, node in enumerate(model.graph.node) for name in node.output if name}
        self._stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def has(self, tensor: str) -> bool:
        return tensor in self._made_by

    def activations(self, node: "onnx.NodeProto") -> list[str]:
        """What a node reads that isn't stored, each once."""
        return [name for name in dict.fromkeys(_reads(node)) if name and name not in self._stored]

    def operations(self, node: "onnx.NodeProto", output: Array) -> int:
        """How many multiplications one row takes; numbers of the output where no stored weights multiply."""
        per_number = 1
        weights = self._stored.get(node.input[1]) if len(node.input) > 1 else None
        if weights is not None and node.op_type in ("Conv", "ConvTranspose"):
            # One filter's size; of a transposed convolution that reads what each input number gives to.
            per_number = math.prod(weights.dims[1:])
        elif weights is not None and node.op_type in ("Gemm", "MatMul") and weights.dims:
            transposed = any(one.name == "transB" and one.i for one in node.attribute)
            per_number = weights.dims[-1] if transposed else weights.dims[max(0, len(weights.dims) - 2)]
        return max(1, output.size // max(1, len(output) if output.ndim else 1)) * per_number

    def weighed_behind(self, operators: Collection[str]) -> set[str]:
        """Tensors behind which there is a node of these kinds."""
        found: set[str] = set()
        for node in reversed(self.model.graph.node):
            if node.op_type in operators or found.intersection(node.output):
                found.update(_reads(node))
        return found

    def rounded(self, tensor: str) -> str:
        """The tensor behind its own quantisation, which is what its readers see; or itself."""
        for reader in self._readers.get(tensor, ()):
            if reader.op_type == "QuantizeLinear" and reader.input[0] == tensor:
                for last in self._readers.get(reader.output[0], ()):
                    if last.op_type == "DequantizeLinear":
                        return str(last.output[0])
        return tensor

    def cut(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> "onnx.ModelProto | None":
        """The part between `inputs` and `outputs`, with their kinds and ranks; None when it needs more."""
        from onnx import TensorProto, helper

        wanted, waiting = set[int](), list(outputs)
        stored: dict[str, TensorProto] = {}
        while waiting:
            name = waiting.pop()
            if not name or name in inputs:
                continue
            if name in self._stored:
                stored[name] = self._stored[name]
            elif name not in self._made_by:
                return None
            elif self._made_by[name] not in wanted:
                wanted.add(self._made_by[name])
                waiting.extend(_reads(self.model.graph.node[self._made_by[name]]))
        read = {name for at in wanted for name in _reads(self.model.graph.node[at])}
        graph = helper.make_graph(
            [self.model.graph.node[at] for at in sorted(wanted)],
            "part",
            [_value(name, array) for name, array in inputs.items() if name in read],
            [_value(name, array) for name, array in outputs.items()],
            list(stored.values()),
        )
        return helper.make_model(
            graph,
            opset_imports=list(self.model.opset_import),
            ir_version=self.model.ir_version,
            functions=list(self.model.functions),
            producer_name="slipway",
        )


def _reads(node: "onnx.NodeProto") -> Iterator[str]:
    """Names that a node reads, those that its subgraphs take from outside included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {value.name for value in (*graph.input, *graph.initializer)}
            inside |= {name for one in graph.node for name in one.output}
            outer = [name for one in graph.node for name in _reads(one)]
            yield from (name for name in outer if name not in inside)


def _value(name: str, like: Array) -> "onnx.ValueInfoProto":
    from onnx import helper

    sizes: Sequence[str] = [f"{name}.{axis}" for axis in range(like.ndim)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(like.dtype), sizes)
