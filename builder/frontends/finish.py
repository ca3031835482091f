"""An exporter's file → the contract's: its names, its dynamic axes, and the same bytes every time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builder.steps.step import Refused
from registry.contract.versions import Signature, TensorSpec

if TYPE_CHECKING:
    import onnx

# Readers that are older than the exporter refuse a newer one.
IR_VERSION = 10


def finish(
    source: Path, out: Path, signature: Signature, produced: Sequence[str], exporter: str, opset: int
) -> None:
    """Writes `source` to `out` with the contract's names. `produced`: its outputs in the contract's order;
    `opset`: of ONNX's own operators, where the exporter used none.

    Raises Refused when an input or output of the contract isn't there.
    """
    import onnx

    from builder.graphs import walks

    model = onnx.load(str(source))
    if not walks.opset(model):
        model.opset_import.append(onnx.helper.make_opsetid("", opset))
    _strip(model)
    _name_inputs(model, signature.inputs)
    _name_outputs(model, signature.outputs, produced)
    _drop_unused(model)
    del model.graph.value_info[:]
    model.ir_version = min(model.ir_version, IR_VERSION)
    model.producer_name, _, model.producer_version = exporter.rpartition(" ")
    model.graph.name = "model"
    out.write_bytes(model.SerializeToString(deterministic=True))


def _strip(model: "onnx.ModelProto") -> None:
    """Traces of where it was made: paths of source files differ from run to run."""
    from builder.graphs import walks

    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    for node in walks.nodes(model):
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.doc_string = ""
        del value.metadata_props[:]
    for function in model.functions:
        del function.metadata_props[:]
        function.doc_string = ""


def _drop_unused(model: "onnx.ModelProto") -> None:
    """Stored tensors that nothing reads."""
    from builder.graphs import walks

    read = {name for node in walks.nodes(model) for name in node.input}
    read |= {value.name for value in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    if len(kept) < len(model.graph.initializer):
        copies = [type(tensor).FromString(tensor.SerializeToString()) for tensor in kept]
        del model.graph.initializer[:]
        model.graph.initializer.extend(copies)


def _name_inputs(model: "onnx.ModelProto", wanted: Sequence[TensorSpec]) -> None:
    """By name where they agree, otherwise in order; the dynamic axes get the contract's names."""
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    real = [value for value in graph.input if value.name not in stored]
    if len(real) != len(wanted):
        raise Refused(
            f"the exported model has {len(real)} inputs ({', '.join(value.name for value in real)}) and the "
            f"contract names {len(wanted)}: an input that doesn't change the answer is dropped; leave it out "
            "of the contract, or use it"
        )
    by_name = {value.name: value for value in real}
    agree = by_name.keys() == {spec.name for spec in wanted}
    ordered = [by_name[spec.name] for spec in wanted] if agree else real
    renamed: dict[str, str] = {}
    for value, spec in zip(ordered, wanted, strict=True):
        if value.name != spec.name:
            if spec.name in _values(model):
                _rename_inside(model, spec.name, f"{spec.name}.inside")
            renamed[value.name] = spec.name
            value.name = spec.name
        _name_axes(value, spec)
    _put_first(model, [_identity(new, old) for old, new in renamed.items()])
    del graph.input[:]
    graph.input.extend(ordered)


def _name_outputs(model: "onnx.ModelProto", wanted: Sequence[TensorSpec], produced: Sequence[str]) -> None:
    import onnx

    graph = model.graph
    by_name = {value.name: value for value in graph.output}
    named = []
    for spec, old in zip(wanted, produced, strict=True):
        value = onnx.ValueInfoProto()
        value.CopyFrom(by_name[old])
        if old != spec.name:
            if spec.name in _values(model):
                _rename_inside(model, spec.name, f"{spec.name}.inside")
            graph.node.append(_identity(old, spec.name))
            value.name = spec.name
        _name_axes(value, spec)
        named.append(value)
    del graph.output[:]
    graph.output.extend(named)


def _values(model: "onnx.ModelProto") -> set[str]:
    """Names that nodes give to what they make."""
    from builder.graphs import walks

    return {name for node in walks.nodes(model) for name in node.output}


def _rename_inside(model: "onnx.ModelProto", old: str, new: str) -> None:
    """Makes a name free that the exporter used for something else."""
    from builder.graphs import walks

    for node in walks.nodes(model):
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                if name == old:
                    names[at] = new


def _identity(source: str, target: str) -> "onnx.NodeProto":
    from onnx import helper

    return helper.make_node("Identity", [source], [target], name=f"name.{target}")


def _put_first(model: "onnx.ModelProto", nodes: Sequence["onnx.NodeProto"]) -> None:
    if nodes:
        rest = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([*nodes, *rest])


def _name_axes(value: "onnx.ValueInfoProto", spec: TensorSpec) -> None:
    """Axes that may vary are called what the contract calls them; a fixed one stays for the check to
    judge."""
    shape = value.type.tensor_type.shape
    if len(shape.dim) != len(spec.shape):
        return
    for axis, (dim, size) in enumerate(zip(shape.dim, spec.shape, strict=True)):
        if not dim.HasField("dim_value"):
            dim.dim_param = size if isinstance(size, str) else f"{spec.name}.{axis}"
