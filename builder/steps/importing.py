"""import: a version's files → one ONNX file, proven to answer what its own framework answers."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from builder.data.samples import read_samples
from builder.frontends.finish import finish
from builder.frontends.onnx import LARGEST_BYTES, import_onnx
from builder.frontends.plan import Format, Plan, plan
from builder.frontends.request import Converted, Request
from builder.frontends.verify import flipped, verify
from builder.steps.sample import made_up
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Framework, Signature, SourceOptions
from registry.contract.wire import Wire
from serving.runtimes import walled

if TYPE_CHECKING:
    import onnx

    Keep = Callable[[onnx.ModelProto], None]

MODEL = "model.onnx"
RAW = "exported.onnx"


class ImportParameters(Wire):
    """`signature` is None for ONNX files, which are taken as they are."""

    framework: Framework
    files: tuple[str, ...]
    source: SourceOptions = SourceOptions()
    options: ImportOptions = ImportOptions()
    signature: Signature | None = None
    max_rows: int = 1
    opset: int | None = None


class ImportResult(StepResult):
    """`exporter` made the ONNX file; `deviation` is its largest distance from the framework's own answers
    over `runs` runs, None where the file came as ONNX."""

    opset: int
    producer: str
    nodes: int
    format: str = Format.ONNX
    exporter: str = ""
    runs: int = 0
    deviation: float | None = None
    warnings: tuple[str, ...] = ()


def run(parameters: ImportParameters, inputs: Inputs, out: Path) -> ImportResult:
    found = plan(parameters.framework, parameters.files, parameters.source)
    if found.format is Format.ONNX:
        return _as_it_is(found, inputs["version"], out)
    if found.executes_code and not walled.inside():
        raise Refused(
            f"{found.main} is a format that may execute code when it is loaded ({found.format}), so it is "
            "loaded in a sandbox only: perform the step with --walled, or save the model in a format that "
            "holds data only (torch.export.save, skops.io.dump)"
        )
    if parameters.signature is None:
        raise Refused(f"a {found.format} file is imported by its contract: give the signature")
    request = Request(
        folder=inputs["version"],
        main=found.main,
        signature=parameters.signature,
        source=parameters.source,
        options=parameters.options,
        opset=parameters.opset,
        max_rows=parameters.max_rows,
        samples=read_samples(inputs["sample"]) if "sample" in inputs else made_up(parameters.signature),
    )
    return _imported(found, request, out)


def _as_it_is(found: Plan, folder: Path, out: Path) -> ImportResult:
    imported = import_onnx(folder, found.main, out / MODEL)
    data = f", with {', '.join(imported.external)} brought in" if imported.external else ""
    return ImportResult(
        says=f"{found.main}: opset {imported.opset}, {imported.nodes} nodes, "
        f"by {imported.producer or 'an unnamed exporter'}{data}",
        opset=imported.opset,
        producer=imported.producer,
        nodes=imported.nodes,
    )


def _imported(found: Plan, request: Request, out: Path) -> ImportResult:
    from builder.graphs import walks

    raw = out / RAW
    converted = _frontend(found, request, lambda model: _keep(model, raw))
    finish(raw, out / MODEL, request.signature, converted.produced, converted.exporter, request.wanted_opset)
    raw.unlink()
    checked = verify(request, converted, out / MODEL)
    material, fine = flipped(request, converted, out / MODEL)
    if material and not request.options.accept_threshold_flips:
        raise Refused(f"{material[0]}; or accept it (recipe.importing.accept_threshold_flips)")
    model = walks.read_graph(out / MODEL)
    opset, nodes = walks.opset(model), sum(1 for _ in walks.nodes(model))
    warnings = (*material, *fine)
    said = (
        f"{found.main or 'the SavedModel'} ({found.format}) → opset {opset}, {nodes} nodes, by "
        f"{converted.exporter}",
        *converted.notes,
        checked.says,
        *warnings,
    )
    return ImportResult(
        says="; ".join(said),
        opset=opset,
        producer=converted.exporter,
        nodes=nodes,
        format=found.format,
        exporter=converted.exporter,
        runs=checked.runs,
        deviation=checked.deviation,
        warnings=warnings,
    )


def _keep(model: "onnx.ModelProto", path: Path) -> None:
    import onnx

    if model.ByteSize() > LARGEST_BYTES:
        raise Refused(
            f"the exported model has {model.ByteSize()} bytes, and an ONNX engine is one file of at most "
            f"{LARGEST_BYTES}; reduce the weights' precision before export"
        )
    onnx.save(model, str(path))


def _frontend(found: Plan, request: Request, keep: "Keep") -> Converted:
    """Only the module of the format is imported: each needs its own environment."""
    match found.format:
        case Format.TORCH_EXPORT | Format.TORCHSCRIPT | Format.TORCH_SOURCE:
            from builder.frontends import pytorch

            return pytorch.convert(request, found.format, keep)
        case Format.SAVED_MODEL:
            from builder.frontends import tensorflow

            return tensorflow.convert(request, keep)
        case Format.LIGHTGBM_TEXT:
            from builder.frontends import lightgbm

            return lightgbm.convert(request, keep)
        case Format.XGBOOST_JSON:
            from builder.frontends import xgboost

            return xgboost.convert(request, keep)
        case Format.SKLEARN_SKOPS | Format.SKLEARN_PICKLE:
            from builder.frontends import sklearn

            return sklearn.convert(request, keep)
        case Format.ONNX:
            raise AssertionError("taken as it is")
        case _:
            assert_never(found.format)


STEP = Step(
    name="import",
    revision=2,
    requires=("version",),
    accepts=("sample",),
    outputs=(MODEL,),
    parameters=ImportParameters,
    result=ImportResult,
    run=run,
)
