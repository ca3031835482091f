"""compile-torch: a PyTorch version → an engine in PyTorch's own format, proven to answer what it answers.

There is no ONNX file on this way: what the engine is held against is the framework's own model.
"""

from pathlib import Path

from builder.data.samples import read_samples
from builder.frontends.plan import Format, Plan, plan
from builder.frontends.request import Request
from builder.frontends.verify import verify
from builder.steps.check import SHARING, check_signature, run_shapes
from builder.steps.engines import batch_varies, opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Framework, Signature, SourceOptions
from registry.contract.wire import Wire
from serving.runtimes import walled
from serving.runtimes.bundle import pack
from serving.runtimes.torch import PARTS, Kind

ENGINE = "model.torch"
FORMATS = (Format.TORCH_EXPORT, Format.TORCHSCRIPT, Format.TORCH_SOURCE)


class CompileTorchParameters(Wire):
    """Of the version's contract; `max_rows` 1: never run in a batch."""

    target: TargetName
    framework: Framework
    files: tuple[str, ...]
    source: SourceOptions = SourceOptions()
    signature: Signature
    max_rows: int


class CompileTorchResult(StepResult):
    """`deviation`: the engine's largest distance from the framework's answers over `runs` runs."""

    batchable: bool
    runs: int
    deviation: float
    warnings: tuple[str, ...]


def run(parameters: CompileTorchParameters, inputs: Inputs, out: Path) -> CompileTorchResult:
    kind = kind_of(parameters.target)
    found = plan(parameters.framework, parameters.files, parameters.source)
    if found.format not in FORMATS:
        raise Refused(
            f"{parameters.target} runs PyTorch's own formats, and the version is {found.format}: build it "
            "for ort.cpu"
        )
    refuse_other(found, kind)
    if not walled.inside():
        raise Refused(
            f"{parameters.target} loads files that may execute code, so it is built in a sandbox only: "
            "perform the step with --walled"
        )
    from builder.frontends import torchnative

    samples = read_samples(inputs["sample"])
    request = Request(
        folder=inputs["version"],
        main=found.main,
        signature=parameters.signature,
        source=parameters.source,
        options=ImportOptions(),
        opset=None,
        max_rows=parameters.max_rows,
        samples=samples,
    )
    made = torchnative.native(request, found.format, kind)
    pack(out / ENGINE, made.signature, {PARTS[kind]: made.content})
    checked = verify(request, made.converted, out / ENGINE, parameters.target)
    warnings: list[str] = []
    with opened(out / ENGINE, parameters.target) as engine:
        check_signature(parameters.signature, engine.signature, parameters.max_rows)
        batchable = parameters.max_rows > 1 and batch_varies(engine.signature)
        _, worst = run_shapes(engine, samples, parameters.max_rows if batchable else 1)
    if worst > SHARING:
        batchable = False
        warnings.append(
            f"a row's answer depends on the rows it shares a batch with (deviation {worst:.2g}), so its "
            "engines are never batched"
        )
    said = (
        f"{found.main} ({found.format}), {made.converted.exporter}",
        checked.says,
        *warnings,
    )
    return CompileTorchResult(
        says="; ".join(said),
        batchable=batchable,
        runs=checked.runs,
        deviation=checked.deviation,
        warnings=tuple(warnings),
    )


def refuse_other(found: Plan, kind: Kind) -> None:
    """Raises Refused where the file has the other one of PyTorch's formats."""
    wanted: dict[Kind, Format] = {"torch": Format.TORCH_EXPORT, "torchscript": Format.TORCHSCRIPT}
    if found.format in (wanted[kind], Format.TORCH_SOURCE):
        return
    other = "torch.cpu" if kind == "torchscript" else "torchscript.cpu"
    raise Refused(
        f"{found.main} is a {found.format} file, which {kind}.cpu doesn't run; build it for {other}, or "
        "register the module's state-dict and source, of which both are made"
    )


def kind_of(target: str) -> Kind:
    """Raises Refused for a target that is none of PyTorch's."""
    kinds: dict[str, Kind] = {"torch.cpu": "torch", "torchscript.cpu": "torchscript"}
    if target in kinds:
        return kinds[target]
    raise Refused(f"{target} is no target of PyTorch's own formats; these are torch.cpu and torchscript.cpu")


STEP = Step(
    name="compile-torch",
    revision=1,
    requires=("version", "sample"),
    accepts=(),
    outputs=(ENGINE,),
    parameters=CompileTorchParameters,
    result=CompileTorchResult,
    run=run,
)
