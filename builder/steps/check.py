"""check: is it a sound model that keeps its contract? Its opset is upgraded where that is harmless."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builder.data.samples import Sample, read_samples, shapes
from builder.judgement.comparison import deviation
from builder.steps.engines import Outputs, batch_varies, opened, run_batch
from builder.steps.sample import made_up
from builder.steps.step import Inputs, Refused, Step, StepResult, first_line
from registry.contract.identity import TargetName
from registry.contract.versions import Signature, TensorSpec
from registry.contract.wire import Wire
from serving.pipeline.errors import IllegalAnswer
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine
from serving.runtimes.tensors import describe

if TYPE_CHECKING:
    import onnx

LEAST_OPSET = 17
BATCHES = (1, 2, 3, 5)
# Largest deviation between two runs that ought to agree: rounding of another order of sums.
ROUNDING = 1e-3
# Largest deviation between a row alone and in a batch for rows that may share a batch. A quantised engine
# rounds the last bits of a float up or down, which moves a score by a hundredth; ranges taken from the whole
# batch move it by a tenth.
SHARING = 5e-2
# Rows on which two files are compared that should be one model.
COMPARED_ROWS = 16


class CheckParameters(Wire):
    signature: Signature
    target: TargetName
    max_rows: int
    opset: int | None = None


class CheckResult(StepResult):
    """`shapes`: batch first, of the first input. `batch_deviation`: a row alone against in a batch."""

    opset_before: int
    opset: int
    shapes: tuple[tuple[int, ...], ...]
    batchable: bool
    batch_deviation: float
    warnings: tuple[str, ...]


def run(parameters: CheckParameters, inputs: Inputs, out: Path) -> CheckResult:
    from builder.graphs import walks

    source, samples = inputs["model"], read_samples(inputs["sample"])
    _check_format(source)
    before = walks.opset(walks.read_graph(source))
    warnings: list[str] = []
    with opened(source, parameters.target) as engine:
        check_signature(parameters.signature, engine.signature, parameters.max_rows)
        batchable = parameters.max_rows > 1 and batch_varies(engine.signature)
        ran, worst = run_shapes(engine, samples, parameters.max_rows if batchable else 1)
        if len(ran) < len(BATCHES):
            ran += _run_made_up(engine, parameters.signature, warnings)
    if worst > SHARING:
        batchable = False
        warnings.append(
            f"a row's answer depends on the rows it shares a batch with (deviation {worst:.2g}), "
            "so its engines are never batched"
        )
    upgraded = upgrade(source, out / "model.onnx", parameters, samples, warnings)
    return CheckResult(
        says=_sentence(before, upgraded, ran, warnings),
        opset_before=before,
        opset=upgraded,
        shapes=tuple(ran),
        batchable=batchable,
        batch_deviation=worst,
        warnings=tuple(warnings),
    )


def _sentence(before: int, after: int, ran: Sequence[tuple[int, ...]], warnings: Sequence[str]) -> str:
    opset = f"opset {before} → {after}" if before != after else f"opset {before}"
    tried = ", ".join("×".join(map(str, shape)) for shape in ran)
    return "; ".join([f"{opset}; ran with shapes {tried}", *warnings])


def _check_format(path: Path) -> None:
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        # Names that are no text are a ValueError, and what it can't parse is a RuntimeError.
        raise Refused(
            f"the model breaks the ONNX standard: {first_line(error)}; run "
            "`onnx.checker.check_model` on it and export it again"
        ) from error


def check_signature(wanted: Signature, found: Signature, max_rows: int) -> None:
    """Raises Refused for the first tensor of the contract that the model doesn't have so."""
    if {spec.name for spec in wanted.inputs} != {spec.name for spec in found.inputs}:
        raise Refused(
            f"the contract names inputs {_names(wanted.inputs)}, and the model has {_names(found.inputs)}; "
            "register a version whose contract names the model's own"
        )
    for kind, promised, real in (
        ("input", wanted.inputs, found.inputs),
        ("output", wanted.outputs, found.outputs),
    ):
        by_name = {spec.name: spec for spec in real}
        for spec in promised:
            if spec.name not in by_name:
                raise Refused(
                    f"the contract names output {spec.name!r}, and the model has {_names(real)}; "
                    "register a version whose contract names the model's own"
                )
            _check_tensor(kind, spec, by_name[spec.name], max_rows)


def _check_tensor(kind: str, wanted: TensorSpec, found: TensorSpec, max_rows: int) -> None:
    if wanted.dtype is not found.dtype or len(wanted.shape) != len(found.shape):
        raise Refused(
            f"{kind} {wanted.name!r} is {describe(wanted)} by the contract and {describe(found)} in the "
            "model; "
            "register a version with a contract that fits the model"
        )
    for axis, (promised, real) in enumerate(zip(wanted.shape, found.shape, strict=True)):
        if isinstance(real, str) or promised == real:
            continue
        if kind == "input" and axis == 0 and max_rows == 1 and real == 1:
            continue
        if isinstance(promised, str):
            raise Refused(
                f"the contract lets axis {axis} ({promised}) of {kind} {wanted.name!r} vary, and the model "
                "has it "
                f"fixed at {real}; export it with that axis dynamic (dynamic_axes or dynamic_shapes)"
                f"{', or set batch.max_rows to 1' if axis == 0 else ''}"
            )
        raise Refused(
            f"axis {axis} of {kind} {wanted.name!r} is {promised} by the contract and {real} in the model; "
            "register a version with a contract that fits the model"
        )


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(repr(spec.name) for spec in specs)


def run_shapes(
    engine: LoadedEngine, samples: Sequence[Sample], max_rows: int
) -> tuple[list[tuple[int, ...]], float]:
    """Rows of every shape alone, then batches. Returns what ran and the worst deviation alone/in a batch."""
    ran: dict[tuple[int, ...], None] = {}
    alone = []
    for sample in samples[: max(BATCHES) * 2]:
        alone.append(_run(engine, [sample])[0])
        ran[_shape(sample, 1)] = None
    worst = 0.0
    same = [at for at in range(len(alone)) if shapes(samples[at].tensors) == shapes(samples[0].tensors)]
    for size in BATCHES:
        if 1 < size <= max_rows:
            picked = [same[turn % len(same)] for turn in range(size)]
            together = _run(engine, [samples[at] for at in picked])
            ran[_shape(samples[picked[0]], size)] = None
            worst = max(worst, *(deviation(alone[at], row) for at, row in zip(picked, together, strict=True)))
    return list(ran), worst


def _shape(sample: Sample, rows: int) -> tuple[int, ...]:
    first = next(iter(sample.tensors.values()))
    return (rows, *first.shape[1:])


def _run(engine: LoadedEngine, batch: list[Sample]) -> list[Outputs]:
    try:
        return run_batch(engine, batch)
    except (RuntimeFault, IllegalAnswer) as error:
        if len(batch) == 1:
            raise Refused(f"the model fails on row {batch[0].key!r}: {error}") from error
        raise Refused(
            f"the model fails on a batch of {len(batch)} rows, though its batch axis may vary: {error}; it "
            "was "
            "probably exported with an example batch of 1 that froze inside: export it with a dynamic batch "
            "axis "
            "and an example batch of 2, or set batch.max_rows to 1"
        ) from error


def _run_made_up(engine: LoadedEngine, signature: Signature, warnings: list[str]) -> list[tuple[int, ...]]:
    """Other sizes of the named inner dimensions, where there are any. A failure is worth a warning only:
    the model may have a least size that the contract has no words for."""
    if not any(isinstance(size, str) for spec in signature.inputs for size in spec.shape[1:]):
        return []
    ran = []
    for sample in made_up(signature, len(BATCHES)):
        try:
            engine.infer(sample.tensors)
        except RuntimeFault as error:
            warnings.append(f"made-up input of shape {list(_shape(sample, 1))} fails: {error}")
        else:
            ran.append(_shape(sample, 1))
    return ran


def upgrade(
    source: Path, out: Path, parameters: CheckParameters, samples: Sequence[Sample], warnings: list[str]
) -> int:
    """Writes the model at the wanted opset, or as it came when that changes an answer. Returns the opset.

    The converter silently changes what some old operators mean, so only equal answers count.
    """
    import onnx
    from google.protobuf.message import EncodeError

    from builder.graphs import walks

    before = walks.opset(walks.read_graph(source))
    wanted = max(LEAST_OPSET, parameters.opset or LEAST_OPSET)
    if before >= wanted:
        out.write_bytes(source.read_bytes())
        return before
    try:
        onnx.save(_converted(source, wanted), str(out))
        problem = disagreement(source, out, parameters.target, samples)
    except (Refused, RuntimeError, ValueError, EncodeError, onnx.checker.ValidationError) as error:
        problem = first_line(error)
    if not problem:
        return wanted
    warnings.append(f"kept opset {before}: the upgrade to {wanted} doesn't hold ({problem})")
    out.write_bytes(source.read_bytes())
    return before


def _converted(source: Path, opset: int) -> "onnx.ModelProto":
    import onnx
    from onnx import version_converter

    converted = version_converter.convert_version(onnx.load(str(source)), opset)
    assert isinstance(converted, onnx.ModelProto)
    return converted


def disagreement(left: Path, right: Path, target: str, samples: Sequence[Sample]) -> str:
    """How two files that should be one model differ on the sample's first rows; empty when they don't."""
    with opened(left, target) as first, opened(right, target) as second:
        if {spec.name for spec in first.signature.inputs} != {spec.name for spec in second.signature.inputs}:
            return "other inputs"
        for sample in samples[:COMPARED_ROWS]:
            off = deviation(first.infer(sample.tensors), second.infer(sample.tensors))
            if off > ROUNDING:
                return f"row {sample.key!r} deviates by {off:.2g}"
    return ""


STEP = Step(
    name="check",
    revision=1,
    requires=("model", "sample"),
    accepts=(),
    outputs=("model.onnx",),
    parameters=CheckParameters,
    result=CheckResult,
    run=run,
)
