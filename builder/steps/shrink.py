"""shrink: files made for their size. FP16 throughout, or weights in 8 or 4 bits by groups."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never

import numpy as np

from builder.data.samples import Array
from builder.quantisation import schemes
from builder.quantisation.weightonly import Bits, group
from builder.steps.quantise import prove_it_loads
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.wire import Wire

if TYPE_CHECKING:
    import onnx

ENGINE = "engine.onnx"
Kind = Literal["fp16", "int8", "int4"]
MULTIPLICATIONS = ("MatMul", "Gemm")


class ShrinkParameters(Wire):
    """`block`: weights that share a scale. `exclude_nodes` keep their precision."""

    target: TargetName
    to: Kind
    block: int = 32
    exclude_nodes: tuple[str, ...] = ()


class ShrinkResult(StepResult):
    """`shrunk`: nodes whose weights are smaller now."""

    shrunk: tuple[str, ...]
    warnings: tuple[str, ...]


def run(parameters: ShrinkParameters, inputs: Inputs, out: Path) -> ShrinkResult:
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(str(inputs["model"])))
    schemes.name_nodes(model)
    warnings: tuple[str, ...] = ()
    match parameters.to:
        case "fp16":
            model, shrunk = _halved(model, parameters.exclude_nodes)
            if "cpu" in parameters.target.split("."):
                warnings = (
                    "CPUs compute FP16 in FP32: the file and its size are proven, not a GPU's arithmetic",
                )
        case "int8":
            shrunk = _grouped(model, parameters, 8)
        case "int4":
            shrunk = _grouped(model, parameters, 4)
        case _:
            assert_never(parameters.to)
    engine = out / ENGINE
    onnx.save(model, str(engine))
    prove_it_loads(engine, inputs["sample"], schemes.scheme_of(parameters.target).proven_by)
    size = engine.stat().st_size / inputs["model"].stat().st_size
    return ShrinkResult(
        says="; ".join([f"{len(shrunk)} nodes in {parameters.to}: {size:.0%} of the size", *warnings]),
        shrunk=shrunk,
        warnings=warnings,
    )


def _halved(model: "onnx.ModelProto", excluded: tuple[str, ...]) -> "tuple[Any, tuple[str, ...]]":
    """Inputs and outputs stay FP32, so that the contract's signature holds."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    names = [node.name for node in model.graph.node]
    unknown = [name for name in excluded if name not in names]
    if unknown:
        raise Refused(f"int8.exclude_nodes names {', '.join(unknown)}, which the graph doesn't have")
    halved = convert_float_to_float16(model, keep_io_types=True, node_block_list=list(excluded))
    return halved, tuple(name for name in names if name not in excluded)


def _grouped(model: "onnx.ModelProto", parameters: ShrinkParameters, bits: Bits) -> tuple[str, ...]:
    """Every multiplication by a stored matrix, in place."""
    import onnx
    from onnx import helper, numpy_helper

    chosen = frozenset(schemes.choose_nodes(model, MULTIPLICATIONS, parameters.exclude_nodes))
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    shrunk = []
    for node in model.graph.node:
        matrix = _matrix(node, stored) if node.name in chosen else None
        if matrix is None:
            nodes.append(node)
            continue
        found = group(matrix, bits, parameters.block)
        names = [f"{node.name}.{part}" for part in ("weights", "scales", "zeros")]
        arrays: tuple[Array, ...] = (found.weights, found.scales.reshape(-1), found.zeros.reshape(-1))
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)
        )
        bias = node.input[2] if node.op_type == "Gemm" and len(node.input) == 3 else None
        product = node.output[0] if bias is None else f"{node.name}.product"
        rows, columns = matrix.shape
        attributes: dict[str, Any] = {"K": rows, "N": columns, "bits": bits, "block_size": parameters.block}
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                [node.input[0], *names],
                [product],
                node.name,
                domain="com.microsoft",
                **attributes,
            )
        )
        if bias is not None:
            nodes.append(helper.make_node("Add", [product, bias], node.output[:1], f"{node.name}.bias"))
        shrunk.append(node.name)
    if not shrunk:
        raise Refused(
            "there are no weights to group: no MatMul or Gemm multiplies by a stored matrix; leave this "
            "precision out"
        )
    _rewrite(model, nodes)
    return tuple(shrunk)


def _matrix(node: "onnx.NodeProto", stored: "dict[str, onnx.TensorProto]") -> np.ndarray[Any, Any] | None:
    """float[summed, columns] that a node multiplies by; None where it isn't stored or isn't so simple."""
    from onnx import helper, numpy_helper

    tensor = stored.get(node.input[1])
    if tensor is None or len(tensor.dims) != 2:
        return None
    matrix = numpy_helper.to_array(tensor)
    if matrix.dtype != np.float32:
        return None
    if node.op_type == "MatMul":
        return matrix
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if given.get("transA") or given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0:
        return None
    return matrix.T if given.get("transB") else matrix


def _rewrite(model: "onnx.ModelProto", nodes: "list[onnx.NodeProto]") -> None:
    """Puts the nodes in, drops the matrices that nothing reads any more."""
    from onnx import helper

    del model.graph.node[:]
    model.graph.node.extend(nodes)
    read = {name for node in _all_nodes(model) for name in node.input}
    read |= {value.name for value in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _all_nodes(model: "onnx.ModelProto") -> "list[onnx.NodeProto]":
    from builder.graphs import walks

    return list(walks.nodes(model))


STEP = Step(
    name="shrink",
    revision=1,
    requires=("model", "sample"),
    accepts=(),
    outputs=(ENGINE,),
    parameters=ShrinkParameters,
    result=ShrinkResult,
    run=run,
)
