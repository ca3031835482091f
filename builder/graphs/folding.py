"""Numbers that are multiplied or added beside a convolution go into its weights: two passes over memory less
for each pair.

ONNX Runtime does so for one number per channel and not for a single one, which networks with learned scales
(PP-LCNet's affine blocks) have by the dozen.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]


def fold_scalars(model: "onnx.ModelProto") -> int:
    """In place. Returns how many operators have gone.

    Behind a convolution both Mul and Add fold. In front of one Mul does; Add only where nothing is padded,
    because what is padded with is 0 and not the number. What something else reads too stays.
    """
    graph = _Graph(model)
    convolutions = [node for node in graph.nodes if node.op_type == "Conv"]
    gone = 0
    for conv in convolutions:
        gone += _fold_behind(graph, conv)
    for conv in convolutions:
        gone += _fold_ahead(graph, conv)
    graph.sweep()
    return gone


@dataclass(frozen=True, slots=True)
class _Affine:
    """`node` multiplies `given` by `number` or adds it."""

    node: "onnx.NodeProto"
    given: str
    number: float

    @property
    def multiplies(self) -> bool:
        return self.node.op_type == "Mul"


def _fold_behind(graph: "_Graph", conv: "onnx.NodeProto") -> int:
    gone = 0
    while (affine := graph.affine(graph.only_reader(conv.output[0]), conv)) is not None:
        weights = graph.weights(conv)
        if weights is None:
            break
        kernel, bias = weights
        if affine.multiplies:
            graph.store(conv, kernel * affine.number, bias * affine.number)
        else:
            graph.store(conv, kernel, bias + affine.number)
        graph.drop(affine.node)
        graph.give(conv, affine.node.output[0])
        gone += 1
    return gone


def _fold_ahead(graph: "_Graph", conv: "onnx.NodeProto") -> int:
    """One Add, one Mul before it, or one of them."""
    weights = graph.weights(conv)
    shift = graph.affine(graph.made_by(conv.input[0]), conv)
    if weights is None or shift is None or graph.only_reader(shift.node.output[0]) is not conv:
        return 0
    if shift.multiplies:
        return _scaled(graph, conv, shift)
    scale = graph.affine(graph.made_by(shift.given), conv)
    if scale is not None and scale.multiplies and graph.only_reader(scale.node.output[0]) is shift.node:
        if scale.number == 0:
            return 0
    else:
        scale = None
    if not _padded(conv):
        kernel, bias = weights
        added = kernel.reshape(len(kernel), -1).sum(axis=1) * shift.number
        graph.store(conv, kernel, bias + added)
        graph.drop(shift.node)
        conv.input[0] = shift.given
        return 1 + (_scaled(graph, conv, scale) if scale is not None else 0)
    if scale is None:
        return 0
    # c · x + d = c · (x + d ÷ c), and c goes into the weights.
    graph.renumber(shift, scale.given, shift.number / scale.number)
    kernel, bias = weights
    graph.store(conv, kernel * scale.number, bias)
    graph.drop(scale.node)
    return 1


def _scaled(graph: "_Graph", conv: "onnx.NodeProto", scale: _Affine) -> int:
    weights = graph.weights(conv)
    assert weights is not None
    graph.store(conv, weights[0] * scale.number, weights[1])
    graph.drop(scale.node)
    conv.input[0] = scale.given
    return 1


def _padded(conv: "onnx.NodeProto") -> bool:
    from onnx import helper

    given = {one.name: helper.get_attribute_value(one) for one in conv.attribute}
    return any(given.get("pads", ())) or given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")


class _Graph:
    """Who makes and reads a tensor, and the numbers that are stored."""

    def __init__(self, model: "onnx.ModelProto") -> None:
        from builder.graphs import walks

        self._model = model
        # Held, because one that nobody holds is another object at the next look.
        self.nodes = list(model.graph.node)
        self._stored = {tensor.name: tensor for tensor in model.graph.initializer}
        reads = Counter(name for node in walks.nodes(model) for name in node.input)
        reads.subtract(name for node in model.graph.node for name in node.input)
        self._inside = {name for name, count in reads.items() if count > 0}
        self._kept = {value.name for value in (*model.graph.output, *model.graph.input)}
        self._made_by: dict[str, onnx.NodeProto] = {}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        self._dropped: set[int] = set()
        for node in self.nodes:
            for name in node.output:
                self._made_by[name] = node
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def made_by(self, tensor: str) -> "onnx.NodeProto | None":
        return self._made_by.get(tensor)

    def only_reader(self, tensor: str) -> "onnx.NodeProto | None":
        """None also for what is an output or is read from inside of a branch."""
        readers = self._readers.get(tensor, [])
        alone = len(readers) == 1 and tensor not in self._kept and tensor not in self._inside
        return readers[0] if alone else None

    def affine(self, node: "onnx.NodeProto | None", beside: "onnx.NodeProto") -> _Affine | None:
        """Where it keeps the rank of the tensors of the convolution that it stands `beside`."""
        if node is None or node.op_type not in ("Mul", "Add") or beside.input[1] not in self._stored:
            return None
        rank = len(self._stored[beside.input[1]].dims)
        for at, name in enumerate(node.input):
            number = self._number(name, rank)
            if number is not None:
                return _Affine(node, str(node.input[1 - at]), number)
        return None

    def _number(self, name: str, rank: int) -> float | None:
        """One stored float with no more axes than `rank`."""
        from onnx import TensorProto, numpy_helper

        tensor = self._stored.get(name)
        if tensor is None or tensor.data_type != TensorProto.FLOAT or name in self._kept:
            return None
        array = numpy_helper.to_array(tensor)
        return float(array.reshape(-1)[0]) if array.size == 1 and array.ndim <= rank else None

    def weights(self, conv: "onnx.NodeProto") -> tuple[Array, Array] | None:
        """Kernel and bias in double precision; None where they aren't stored as floats."""
        from onnx import TensorProto, numpy_helper

        found = [self._stored.get(name) for name in conv.input[1:] if name]
        if any(one is None or one.data_type != TensorProto.FLOAT for one in found):
            return None
        arrays = [numpy_helper.to_array(one).astype(np.float64) for one in found if one is not None]
        return (arrays[0], arrays[1]) if len(arrays) == 2 else (arrays[0], np.zeros(len(arrays[0])))

    def store(self, conv: "onnx.NodeProto", kernel: Array, bias: Array) -> None:
        """Under names of its own: weights may be shared."""
        names = [
            self._put(f"{conv.output[0]}.folded.{kind}", array)
            for kind, array in (("weight", kernel), ("bias", bias))
        ]
        del conv.input[1:]
        conv.input.extend(names)

    def _put(self, name: str, array: Array) -> str:
        from onnx import numpy_helper

        tensor = numpy_helper.from_array(array.astype(np.float32), name)
        if name in self._stored:
            self._stored[name].CopyFrom(tensor)
        else:
            self._model.graph.initializer.append(tensor)
            self._stored[name] = self._model.graph.initializer[-1]
        return name

    def renumber(self, affine: _Affine, given: str, number: float) -> None:
        name = self._put(f"{affine.node.output[0]}.folded", np.array([number]))
        del affine.node.input[:]
        affine.node.input.extend([given, name])
        self._readers.setdefault(given, []).append(affine.node)

    def give(self, conv: "onnx.NodeProto", tensor: str) -> None:
        """The convolution makes that tensor from now on."""
        conv.output[0] = tensor
        self._made_by[tensor] = conv

    def drop(self, node: "onnx.NodeProto") -> None:
        self._dropped.add(id(node))
        for name in node.input:
            self._readers[name] = [one for one in self._readers.get(name, []) if one is not node]

    def sweep(self) -> None:
        """Takes the dropped nodes out, and the numbers that nothing reads any more."""
        from builder.graphs import walks

        kept = [walks.copy_of(node) for node in self.nodes if id(node) not in self._dropped]
        del self._model.graph.node[:]
        self._model.graph.node.extend(kept)
        read = {name for node in walks.nodes(self._model) for name in node.input} | self._kept
        stored = [tensor for tensor in self._model.graph.initializer if tensor.name in read]
        copies = [walks.copy_of(tensor) for tensor in stored]
        del self._model.graph.initializer[:]
        self._model.graph.initializer.extend(copies)
