"""calibrate: ranges of the tensors to be quantised, over all rows of the calibration set."""

from pathlib import Path

import orjson

from builder import quantisation
from builder.calibration import MinMax, NotFinite
from builder.prepare import FILES, files_of, read_samples_of
from builder.samples import fingerprint
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.pipeline import PipelineSpec
from registry.contract.recipes import Int8Options
from registry.contract.versions import Signature
from registry.contract.wire import Wire

RANGES = "ranges.json"
CALIBRATED = "calibrated.txt"


class CalibrateParameters(Wire):
    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    int8: Int8Options


class CalibrateResult(StepResult):
    rows: int
    tensors: int


def run(parameters: CalibrateParameters, inputs: Inputs, out: Path) -> CalibrateResult:
    """`calibrated.txt` holds a fingerprint per row, so that no row is judged that was calibrated on."""
    watched = out / "watched.onnx"
    tensors = _watch(inputs["model"], watched, parameters.int8)
    collector = MinMax()
    seen: set[str] = set()
    # Row by row: a row's numbers may depend on its batch in the last bits, and the ranges must not.
    with opened(watched, parameters.target, optimisation="basic") as engine:
        files = files_of(parameters.pipeline, inputs)
        for _, sample in read_samples_of(
            inputs["rows"], parameters.pipeline, parameters.signature, files=files
        ):
            outputs = engine.infer(sample.tensors)
            try:
                collector.update({name: (outputs | dict(sample.tensors))[name] for name in tensors})
            except NotFinite as error:
                raise Refused(
                    f"{error} on row {sample.key!r}, so it has no range; exclude its node from quantisation "
                    "(int8.exclude_nodes) or mend the row"
                ) from error
            seen.add(fingerprint(sample.tensors))
    watched.unlink()
    ranges = collector.ranges()
    (out / RANGES).write_bytes(orjson.dumps(ranges, option=orjson.OPT_INDENT_2))
    (out / CALIBRATED).write_text("".join(f"{one}\n" for one in sorted(seen)))
    return CalibrateResult(
        says=f"ranges of {len(ranges)} tensors over {len(seen)} different rows",
        rows=len(seen),
        tensors=len(ranges),
    )


def _watch(source: Path, out: Path, options: Int8Options) -> list[str]:
    """A copy of the model that also gives the tensors which need a range. Returns their names."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(str(source)))
    quantisation.name_nodes(model)
    operators = quantisation.static_operators(model, options.operators)
    chosen = quantisation.choose_nodes(model, operators, options.exclude_nodes)
    names = quantisation.float_tensors(model, chosen)
    typed = {value.name: value for value in model.graph.value_info}
    given = {value.name for value in (*model.graph.output, *model.graph.input)}
    model.graph.output.extend(typed[name] for name in names if name not in given)
    onnx.save(model, str(out))
    return names


STEP = Step(
    name="calibrate",
    revision=1,
    requires=("model", "rows"),
    accepts=(FILES,),
    outputs=(RANGES, CALIBRATED),
    parameters=CalibrateParameters,
    result=CalibrateResult,
    run=run,
)
