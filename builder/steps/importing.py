"""import: a version's files → one ONNX file."""

from pathlib import Path

from builder.frontends.onnx import choose_model, import_onnx
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.versions import Framework
from registry.contract.wire import Wire


class ImportParameters(Wire):
    framework: Framework
    files: tuple[str, ...]


class ImportResult(StepResult):
    opset: int
    producer: str
    nodes: int


def run(parameters: ImportParameters, inputs: Inputs, out: Path) -> ImportResult:
    if parameters.framework is not Framework.ONNX:
        raise Refused(
            f"this worker imports ONNX only, and the version is {parameters.framework.value}: loading it may "
            "execute code that came with the file; export the model to ONNX and register that file"
        )
    name = choose_model(parameters.files)
    found = import_onnx(inputs["version"], name, out / "model.onnx")
    data = f", with {', '.join(found.external)} brought in" if found.external else ""
    return ImportResult(
        says=f"{name}: opset {found.opset}, {found.nodes} nodes, "
        f"by {found.producer or 'an unnamed exporter'}{data}",
        opset=found.opset,
        producer=found.producer,
        nodes=found.nodes,
    )


STEP = Step(
    name="import",
    revision=1,
    requires=("version",),
    accepts=(),
    outputs=("model.onnx",),
    parameters=ImportParameters,
    result=ImportResult,
    run=run,
)
