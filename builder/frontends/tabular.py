"""Models of tables: the contract's inputs as one table, and the graph around what works on it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from builder.frontends.request import Request, Table
from builder.steps.step import Refused
from registry.contract.versions import Dtype
from serving.runtimes.dtypes import numpy_dtype

if TYPE_CHECKING:
    import onnx

DTYPES = (Dtype.FP32, Dtype.FP64)
# Trees with sets of categories, of doubles too.
TREES_OPSET = 5


def one_table(request: Request, features: int) -> Table:
    """Raises Refused when the contract's inputs are no table of so many features."""
    specs = request.signature.inputs
    kinds = {spec.dtype for spec in specs}
    wide = len(specs) == 1 and len(specs[0].shape) == 2 and specs[0].shape[1] == features
    narrow = len(specs) == features and all(spec.shape[1:] in ((), (1,)) for spec in specs)
    if not (wide or narrow) or len(kinds) != 1 or not kinds <= set(DTYPES):
        found = ", ".join(f"{spec.name!r} {spec.dtype}{list(spec.shape)}" for spec in specs)
        raise Refused(
            f"the model takes {features} features, and the contract's inputs are {found}; declare one input "
            f"FP32 or FP64 [batch, {features}], or {features} inputs [batch, 1], all of one type"
        )
    return Table(specs)


def write(request: Request, table: Table, nodes: Iterable["onnx.NodeProto"]) -> "onnx.ModelProto":
    """A model of these nodes, which read `table`. It has no outputs yet."""
    from onnx import helper

    element = helper.np_dtype_to_tensor_dtype(table.dtype)
    inputs = [helper.make_tensor_value_info(spec.name, element, list(spec.shape)) for spec in table.specs]
    return helper.make_model(
        helper.make_graph([*_gather(table), *nodes], "model", inputs, []),
        opset_imports=[
            helper.make_opsetid("", request.wanted_opset),
            helper.make_opsetid("ai.onnx.ml", TREES_OPSET),
        ],
    )


def _gather(table: Table) -> Iterable["onnx.NodeProto"]:
    from onnx import helper, numpy_helper

    if len(table.specs) == 1:
        yield helper.make_node("Identity", [table.specs[0].name], ["table"])
        return
    import numpy as np

    column = numpy_helper.from_array(np.array([-1, 1], np.int64))
    yield helper.make_node("Constant", [], ["column"], value=column)
    for spec in table.specs:
        yield helper.make_node("Reshape", [spec.name, "column"], [f"column.{spec.name}"])
    yield helper.make_node("Concat", [f"column.{spec.name}" for spec in table.specs], ["table"], axis=1)


def is_double(table: Table) -> bool:
    return table.dtype == numpy_dtype(Dtype.FP64)
