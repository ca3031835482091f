"""compile-openvino: an ONNX file → one OpenVINO engine, equal bytes for equal input."""

from pathlib import Path

from builder.data.samples import read_samples
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.versions import Dtype
from registry.contract.wire import Wire
from serving.runtimes.bundle import pack
from serving.runtimes.errors import RunFailed, RuntimeMissing
from serving.runtimes.openvino import MODEL, WEIGHTS, import_openvino

ENGINE = "model.openvino"
SOURCE_TARGET = "ort.cpu"


class CompileOpenVinoParameters(Wire):
    target: TargetName


class CompileOpenVinoResult(StepResult):
    """`tool`: OpenVINO's own version, with the commit that it was built from."""

    tool: str


def run(parameters: CompileOpenVinoParameters, inputs: Inputs, out: Path) -> CompileOpenVinoResult:
    try:
        openvino = import_openvino()
    except RuntimeMissing as error:
        raise Refused(str(error)) from error
    with opened(inputs["model"], SOURCE_TARGET) as source:
        signature = source.signature
    if any(spec.dtype is Dtype.BYTES for spec in (*signature.inputs, *signature.outputs)):
        raise Refused(
            "OpenVINO's tensors of text end the process that uses them; turn texts into numbers in the "
            "version's pre-processing, or build for ort.cpu"
        )
    model, weights = out / MODEL, out / WEIGHTS
    try:
        openvino.serialize(openvino.Core().read_model(str(inputs["model"])), str(model), str(weights))
    except RuntimeError as error:
        raise Refused(
            f"OpenVINO can't read the model: {_told(error)}; build this precision for ort.cpu, or leave the "
            "operator that it names out"
        ) from error
    pack(out / ENGINE, signature, {MODEL: model.read_bytes(), WEIGHTS: weights.read_bytes()})
    first = read_samples(inputs["sample"])[0]
    with opened(out / ENGINE, parameters.target) as engine:
        try:
            engine.infer(first.tensors)
        except RunFailed as error:
            raise Refused(f"the engine fails on row {first.key!r}: {error}") from error
    size, before = (out / ENGINE).stat().st_size, inputs["model"].stat().st_size
    return CompileOpenVinoResult(
        says=f"by OpenVINO {openvino.__version__}; {size / before:.0%} of the size", tool=openvino.__version__
    )


def _told(error: Exception) -> str:
    """Without the places in OpenVINO's own sources where it was thrown."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(told)[:400] or type(error).__name__


STEP = Step(
    name="compile-openvino",
    revision=1,
    requires=("model", "sample"),
    accepts=(),
    outputs=(ENGINE,),
    parameters=CompileOpenVinoParameters,
    result=CompileOpenVinoResult,
    run=run,
)
