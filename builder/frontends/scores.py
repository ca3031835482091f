"""From a tree or linear model's label, scores or value to the outputs that a contract names.

A classifier has a label per row and scores [rows, classes]; a regressor has one value per row. A contract may
ask for the label (an integer or text), for all scores, or for the positive class's score alone ([rows] or
[rows, 1] of two classes).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from builder.frontends.request import Array
from builder.steps.step import Refused
from registry.contract.versions import Dtype, Signature, TensorSpec
from serving.runtimes.dtypes import FLOATS, numpy_dtype

if TYPE_CHECKING:
    import onnx


class Role(StrEnum):
    LABEL = "label"
    SCORES = "scores"
    POSITIVE = "positive"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Names:
    """Of the ONNX outputs that hold labels, scores [rows, classes] and values [rows, n]. None: it has
    none."""

    label: str | None = None
    scores: str | None = None
    value: str | None = None
    classes: int = 0


def roles(signature: Signature, names: Names) -> tuple[Role, ...]:
    """What each output of the contract means. Raises Refused for one that such a model doesn't have."""
    return tuple(_role(spec, names) for spec in signature.outputs)


def _role(spec: TensorSpec, names: Names) -> Role:
    if names.value is not None:
        if spec.dtype in FLOATS:
            return Role.VALUE
        raise Refused(
            f"the contract wants output {spec.name!r} as {spec.dtype}, and the model answers a number per "
            "row: declare FP32 or FP64"
        )
    if spec.dtype not in FLOATS:
        if names.label is not None:
            return Role.LABEL
        raise Refused(f"the model has no label for output {spec.name!r}: declare its scores as FP32")
    if names.scores is None:
        raise Refused(
            f"the contract wants scores in output {spec.name!r}, and the model gives labels only: train it "
            "so that it gives probabilities, or declare the label alone (INT64)"
        )
    narrow = len(spec.shape) == 1 or spec.shape[-1] == 1
    return Role.POSITIVE if narrow and names.classes == 2 else Role.SCORES


def answers(signature: Signature, parts: tuple[Role, ...], found: Mapping[str, Array]) -> dict[str, Array]:
    """The contract's outputs of a framework's own `label`, `scores` and `value`."""
    outputs = {}
    for spec, role in zip(signature.outputs, parts, strict=True):
        array = found["scores"][:, 1:2] if role is Role.POSITIVE else found[role.value]
        rows = len(array)
        outputs[spec.name] = np.ascontiguousarray(
            array.reshape(rows) if len(spec.shape) == 1 else array.reshape(rows, -1)
        ).astype(numpy_dtype(spec.dtype))
    return outputs


def adapt(
    model: "onnx.ModelProto", signature: Signature, parts: tuple[Role, ...], names: Names
) -> tuple[str, ...]:
    """Adds what turns the model's outputs into the contract's: a column, a rank, a width. Returns their
    names, in the contract's order; they are the model's only outputs then."""
    from onnx import helper

    graph = model.graph
    holding = {
        Role.LABEL: names.label,
        Role.SCORES: names.scores,
        Role.POSITIVE: names.scores,
        Role.VALUE: names.value,
    }
    produced = []
    del graph.output[:]
    for at, (spec, role) in enumerate(zip(signature.outputs, parts, strict=True)):
        name = holding[role]
        assert name is not None, "roles() refuses what the model doesn't have"
        if role is Role.POSITIVE:
            name = _column(model, name, at)
        name = _reshaped(model, name, at, len(spec.shape))
        if spec.dtype is not Dtype.BYTES:
            name = _cast(model, name, at, spec)
        graph.output.append(helper.make_tensor_value_info(name, _element(spec), list(spec.shape)))
        produced.append(name)
    return tuple(produced)


def _column(model: "onnx.ModelProto", name: str, at: int) -> str:
    import onnx
    from onnx import helper

    model.graph.initializer.append(helper.make_tensor(f"slipway.one.{at}", onnx.TensorProto.INT64, [1], [1]))
    model.graph.node.append(
        helper.make_node("Gather", [name, f"slipway.one.{at}"], [f"slipway.positive.{at}"], axis=1)
    )
    return f"slipway.positive.{at}"


def _reshaped(model: "onnx.ModelProto", name: str, at: int, rank: int) -> str:
    """Rows alone, or rows by what each has: exporters disagree about a single number per row."""
    import onnx
    from onnx import helper

    shape = [-1] if rank == 1 else [0, -1]
    model.graph.initializer.append(
        helper.make_tensor(f"slipway.shape.{at}", onnx.TensorProto.INT64, [len(shape)], shape)
    )
    model.graph.node.append(
        helper.make_node("Reshape", [name, f"slipway.shape.{at}"], [f"slipway.shaped.{at}"])
    )
    return f"slipway.shaped.{at}"


def _cast(model: "onnx.ModelProto", name: str, at: int, spec: TensorSpec) -> str:
    from onnx import helper

    model.graph.node.append(helper.make_node("Cast", [name], [f"slipway.cast.{at}"], to=_element(spec)))
    return f"slipway.cast.{at}"


def _element(spec: TensorSpec) -> int:
    import onnx
    from onnx import helper

    if spec.dtype is Dtype.BYTES:
        return int(onnx.TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(spec.dtype)))
