"""quantise: INT8 by the target's scheme. Static ranges as QDQ, or ranges taken anew from every batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson

from builder.data.samples import read_samples
from builder.quantisation import schemes
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.recipes import Int8Options
from registry.contract.wire import Wire
from serving.runtimes.errors import RunFailed

if TYPE_CHECKING:
    import onnx

ENGINE = "engine.onnx"
Mode = Literal["static", "dynamic"]


class QuantiseParameters(Wire):
    target: TargetName
    mode: Mode
    int8: Int8Options


class QuantiseResult(StepResult):
    operators: tuple[str, ...]
    quantised: tuple[str, ...]
    excluded: tuple[str, ...]


def run(parameters: QuantiseParameters, inputs: Inputs, out: Path) -> QuantiseResult:
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(str(inputs["model"])))
    schemes.name_nodes(model)
    if parameters.mode == "static":
        if "ranges" not in inputs:
            raise Refused("static INT8 needs ranges; name a calibration set in the recipe")
        operators = schemes.static_operators(model, parameters.int8.operators)
    else:
        operators = parameters.int8.operators or schemes.DYNAMIC
    chosen = schemes.choose_nodes(model, operators, parameters.int8.exclude_nodes)
    kinds = {node.name: node.op_type for node in model.graph.node}
    engine = out / ENGINE
    scheme = schemes.scheme_of(parameters.target)
    if parameters.mode == "static":
        ranges = orjson.loads(inputs["ranges"].read_bytes())[parameters.int8.calibrator]
        _static(model, engine, chosen, operators, parameters.int8, scheme, ranges)
    else:
        _dynamic(model, engine, chosen, operators, parameters.int8)
    quantised = _quantised(engine, chosen)
    if not quantised:
        raise Refused(
            f"nothing was quantised of {', '.join(chosen)}: their weights are not constants; choose other "
            "operators "
            "with int8.operators, or leave this precision out"
        )
    prove_it_loads(engine, inputs["sample"], scheme.proven_by)
    names = sorted({kinds[name] for name in quantised})
    shrunk = engine.stat().st_size / inputs["model"].stat().st_size
    how = scheme.name if parameters.mode == "static" else "dynamic"
    return QuantiseResult(
        says=f"in INT8 ({how}): {', '.join(names)} (nodes: {len(quantised)}); {shrunk:.0%} of the size",
        operators=operators,
        quantised=quantised,
        excluded=parameters.int8.exclude_nodes,
    )


def _static(
    model: "onnx.ModelProto",
    out: Path,
    chosen: Sequence[str],
    operators: Sequence[str],
    options: Int8Options,
    scheme: schemes.Scheme,
    ranges: dict[str, tuple[float, float]],
) -> None:
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    missing = [name for name in schemes.float_tensors(model, chosen) if name not in ranges]
    if missing:
        raise Refused(
            f"the calibration set gave no range for {', '.join(missing[:5])}; add rows that reach these "
            "tensors"
        )
    data = {name: (np.float32(low), np.float32(high)) for name, (low, high) in ranges.items()}
    quantiser = QDQQuantizer(
        model,
        options.per_channel,
        options.reduce_range and not scheme.signed,
        QuantType.QInt8,
        QuantType.QInt8 if scheme.signed else QuantType.QUInt8,
        TensorsData(CalibrationMethod.MinMax, data),
        list(chosen),
        [],
        list(operators),
        {
            # The adjustment fails on Gemm with per-channel weights; it guards against biases beyond int32.
            "QDQDisableWeightAdjustForInt32Bias": True,
            "ActivationSymmetric": scheme.signed,
            "WeightSymmetric": True,
            "QuantizeBias": scheme.quantise_bias,
        },
    )
    quantiser.quantize_model()
    quantiser.model.save_model_to_file(str(out))


def _dynamic(
    model: "onnx.ModelProto", out: Path, chosen: Sequence[str], operators: Sequence[str], options: Int8Options
) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    add_pre_process_metadata(model)
    quantize_dynamic(
        model,
        str(out),
        op_types_to_quantize=list(operators),
        per_channel=options.per_channel,
        reduce_range=options.reduce_range,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=list(chosen),
    )


def _quantised(engine: Path, chosen: Sequence[str]) -> tuple[str, ...]:
    """Which of the chosen nodes really work on 8-bit numbers now."""
    from builder.graphs import walks

    model = walks.read_graph(engine)
    dequantised = {
        name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output
    }
    kept = {node.name: node for node in model.graph.node}
    found = []
    for name in chosen:
        node: Any = kept.get(name)
        if node is None or dequantised.intersection(node.input):
            found.append(name)
    return tuple(found)


def prove_it_loads(engine: Path, sample: Path, target: str) -> None:
    first = read_samples(sample)[0]
    with opened(engine, target) as loaded:
        try:
            loaded.infer(first.tensors)
        except RunFailed as error:
            raise Refused(f"the quantised engine fails on row {first.key!r}: {error}") from error


STEP = Step(
    name="quantise",
    revision=2,
    requires=("model", "sample"),
    accepts=("ranges",),
    outputs=(ENGINE,),
    parameters=QuantiseParameters,
    result=QuantiseResult,
    run=run,
)
