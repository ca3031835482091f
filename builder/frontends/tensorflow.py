"""TensorFlow SavedModels → ONNX by tf2onnx. A function of the graph is read, not layers of Keras.

TensorFlow finds what Keras 2 left beside it (optimizers) in tf_keras, which is in the environment for that.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from builder.frontends.request import Array, Converted, Request
from builder.steps.step import Refused, first_line
from registry.contract.versions import TensorSpec
from serving.runtimes.dtypes import numpy_dtype

if TYPE_CHECKING:
    import onnx


def convert(request: Request, out_model: Callable[["onnx.ModelProto"], None]) -> Converted:
    """Hands the model to `out_model`. Raises Refused."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
    import tensorflow as tf
    import tf2onnx

    loaded = _load(tf, request)
    function = _function(loaded, request)
    keys = _matched(
        "input",
        [spec.name for spec in request.signature.inputs],
        _input_specs(function),
    )
    outputs = _matched(
        "output",
        [spec.name for spec in request.signature.outputs],
        dict(function.structured_outputs),
    )

    def flat(*tensors: Any) -> Any:
        found = function(**dict(zip(keys, tensors, strict=True)))
        return tuple(tf.identity(found[key], name=f"output_{at}") for at, key in enumerate(outputs))

    try:
        traced = tf.function(flat, input_signature=[_spec(tf, spec) for spec in request.signature.inputs])
        concrete = traced.get_concrete_function()
        model, _ = tf2onnx.convert.from_function(
            traced,
            input_signature=[_spec(tf, spec) for spec in request.signature.inputs],
            opset=request.wanted_opset,
        )
    except Exception as error:  # TensorFlow's and tf2onnx's own: the text is all that they share
        raise Refused(_why_not(request, error)) from error
    _store_captured(tf, model, concrete)
    _no_foreign(model)
    produced = tuple(value.name for value in model.graph.output)
    out_model(model)
    if len(produced) != len(outputs):
        raise Refused(
            f"tf2onnx made {len(produced)} outputs of {len(outputs)}: two outputs of the contract are one "
            "tensor; name it once"
        )

    def reference(inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = {
            key: tf.constant(inputs[spec.name])
            for key, spec in zip(keys, request.signature.inputs, strict=True)
        }
        found = function(**given)
        return {
            spec.name: np.asarray(found[key])
            for key, spec in zip(outputs, request.signature.outputs, strict=True)
        }

    return Converted(
        exporter=f"tf2onnx {tf2onnx.__version__}",
        produced=produced,
        reference=reference,
        notes=(f"function {request.source.function}, by TensorFlow {tf.__version__}",),
    )


def _load(tf: Any, request: Request) -> Any:
    try:
        return tf.saved_model.load(str(request.path))
    except Exception as error:  # a damaged protocol buffer, missing variables, an unknown operator
        first = first_line(error)
        raise Refused(
            f"the SavedModel can't be loaded: {first}; register its whole folder (saved_model.pb, "
            "variables/, assets/), with TensorFlow's own operators only"
        ) from error


def _function(loaded: Any, request: Request) -> Any:
    known = dict(getattr(loaded, "signatures", {}))
    if request.source.function not in known:
        raise Refused(
            f"the SavedModel has no signature {request.source.function!r}; it has "
            f"{', '.join(known) or 'none'}: name one in the contract (source.function), or save it with one "
            "(model.export in Keras, signatures= of tf.saved_model.save)"
        )
    return known[request.source.function]


def _input_specs(function: Any) -> dict[str, Any]:
    return dict(function.structured_input_signature[1])


def _matched(kind: str, wanted: Sequence[str], found: Mapping[str, Any]) -> list[str]:
    """The SavedModel's names in the contract's order: equal ones, or the only one."""
    if set(wanted) <= set(found) and (kind == "output" or len(wanted) == len(found)):
        return list(wanted)
    if len(wanted) == len(found) == 1:
        return list(found)
    listed = ", ".join(f"{name} {getattr(spec, 'shape', '')}" for name, spec in found.items())
    raise Refused(
        f"the contract names {kind}s {', '.join(wanted)}, and the SavedModel's function has {listed}; "
        "register a version whose contract uses its names"
    )


def _spec(tf: Any, spec: TensorSpec) -> Any:
    return tf.TensorSpec(
        [size if isinstance(size, int) else None for size in spec.shape],
        tf.as_dtype(numpy_dtype(spec.dtype)),
        name=spec.name,
    )


def _store_captured(tf: Any, model: "onnx.ModelProto", concrete: Any) -> None:
    """Constants that a function closes over are its inputs to tf2onnx; they belong into the file."""
    from onnx import numpy_helper

    captured = {
        inner.name: outer.numpy()
        for outer, inner in concrete.graph.captures
        if inner.dtype not in (tf.resource, tf.variant)
    }
    kept = [value for value in model.graph.input if value.name not in captured]
    for value in model.graph.input:
        if value.name in captured:
            model.graph.initializer.append(numpy_helper.from_array(captured[value.name], value.name))
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _no_foreign(model: "onnx.ModelProto") -> None:
    """tf2onnx leaves what it can't convert in the graph, under its own name."""
    from onnx import defs

    from builder.graphs import walks

    known = {schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}
    local = {function.name for function in model.functions}
    foreign = {
        f"{node.op_type} ({node.name})"
        for node in walks.nodes(model)
        if node.domain not in walks.ONNX_DOMAINS or node.op_type not in known | local
    }
    if foreign:
        raise Refused(
            f"ONNX has no operator for {', '.join(sorted(foreign))}; replace it in the model, or do that "
            "part in the version's pre-processing"
        )


def _why_not(request: Request, error: Exception) -> str:
    first = first_line(error)
    named = [spec.name for spec in request.signature.inputs if any(isinstance(s, str) for s in spec.shape)]
    return (
        f"the SavedModel can't be converted: {type(error).__name__}: {first[:500]}; where it names a shape: "
        f"the contract lets axes of {', '.join(named) or 'no input'} vary, so the model must have been saved "
        "with them open (shape (None, …)); where it names an operator: replace that in the model"
    )
