"""calibrate: ranges of the tensors to be quantised, over all rows of the calibration set."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from builder.data.prepare import FILES, files_of, read_samples_of
from builder.data.samples import Array, fingerprint
from builder.quantisation import schemes
from builder.quantisation.calibration import Counts, Histograms, MinMax, NotFinite
from builder.quantisation.thresholds import Chosen, choose
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import CalibrationReport, ClippedTensor
from registry.contract.identity import TargetName
from registry.contract.pipeline import PipelineSpec
from registry.contract.recipes import Calibrator
from registry.contract.versions import Signature
from registry.contract.wire import Wire

RANGES = "ranges.json"
CALIBRATED = "calibrated.txt"
WORST = 5


class CalibrateParameters(Wire):
    """Ranges by several calibrators cost little more than by one: they read the same histograms."""

    target: TargetName
    signature: Signature
    pipeline: PipelineSpec
    operators: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    calibrators: tuple[Calibrator, ...] = ("minmax",)
    percentile: float = 99.99


class CalibrateResult(StepResult):
    rows: int
    tensors: int
    reports: tuple[CalibrationReport, ...]

    def report(self, calibrator: Calibrator) -> CalibrationReport:
        return next(report for report in self.reports if report.calibrator == calibrator)


class _Watched:
    """The model with the tensors that need a range as outputs too, run over the calibration set."""

    def __init__(self, parameters: CalibrateParameters, inputs: Inputs, out: Path) -> None:
        self._parameters = parameters
        self._inputs = inputs
        self._model = out / "watched.onnx"
        self._tensors = _watch(inputs["model"], self._model, parameters)

    def rows(self) -> Iterator[tuple[str, str, Mapping[str, Array]]]:
        """Key, fingerprint and watched tensors of every row. Row by row: a row's numbers may depend on its
        batch in the last bits, and the ranges must not."""
        pipeline = self._parameters.pipeline
        with opened(self._model, schemes.scheme_of(self._parameters.target).proven_by, 1, "basic") as run:
            for _, sample in read_samples_of(
                self._inputs["rows"],
                pipeline,
                self._parameters.signature,
                files=files_of(pipeline, self._inputs),
            ):
                found = run.infer(sample.tensors) | dict(sample.tensors)
                yield sample.key, fingerprint(sample.tensors), {name: found[name] for name in self._tensors}

    def close(self) -> None:
        self._model.unlink()


def run(parameters: CalibrateParameters, inputs: Inputs, out: Path) -> CalibrateResult:
    """Memory doesn't grow with the rows: one is held at a time, and read twice where a calibrator wants a
    histogram. `calibrated.txt` holds a fingerprint per row, so that no row is judged that was calibrated
    on."""
    watched = _Watched(parameters, inputs, out)
    collector = MinMax()
    seen: set[str] = set()
    for key, mark, tensors in watched.rows():
        try:
            collector.update(tensors)
        except NotFinite as error:
            raise Refused(
                f"{error} on row {key!r}, so it has no range; exclude its node from quantisation "
                "(int8.exclude_nodes) or mend the row"
            ) from error
        seen.add(mark)
    histograms = Histograms(collector.ranges())
    if set(parameters.calibrators) != {"minmax"}:
        for _, _, tensors in watched.rows():
            histograms.update(tensors)
    watched.close()
    symmetric = schemes.scheme_of(parameters.target).signed
    chosen = {
        calibrator: _chosen(collector, histograms.counts(), calibrator, parameters.percentile, symmetric)
        for calibrator in parameters.calibrators
    }
    ranges = {
        calibrator: {name: (one.low, one.high) for name, one in found.items()}
        for calibrator, found in chosen.items()
    }
    (out / RANGES).write_bytes(orjson.dumps(ranges, option=orjson.OPT_INDENT_2))
    (out / CALIBRATED).write_text("".join(f"{one}\n" for one in sorted(seen)))
    reports = tuple(_report(calibrator, found, len(seen)) for calibrator, found in chosen.items())
    clipped = ", ".join(f"{report.calibrator} clips {report.clipped:.3%}" for report in reports)
    return CalibrateResult(
        says=f"ranges of {len(collector.ranges())} tensors over {len(seen)} different rows; {clipped}",
        rows=len(seen),
        tensors=len(collector.ranges()),
        reports=reports,
    )


def _chosen(
    collector: MinMax, counts: dict[str, Counts], calibrator: Calibrator, percentile: float, symmetric: bool
) -> dict[str, Chosen]:
    return {
        name: choose(counts[name], low, high, calibrator, percentile, symmetric)
        for name, (low, high) in collector.ranges().items()
    }


def _report(calibrator: Calibrator, found: dict[str, Chosen], rows: int) -> CalibrationReport:
    shares = [
        ClippedTensor(tensor=name, share=one.clipped / one.values)
        for name, one in found.items()
        if one.clipped
    ]
    values = sum(one.values for one in found.values())
    return CalibrationReport(
        calibrator=calibrator,
        rows=rows,
        tensors=len(found),
        clipped=sum(one.clipped for one in found.values()) / max(values, 1),
        worst=tuple(sorted(shares, key=lambda one: (-one.share, one.tensor))[:WORST]),
    )


def _watch(source: Path, out: Path, parameters: CalibrateParameters) -> list[str]:
    """A copy of the model that also gives the tensors which need a range. Returns their names."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(str(source)))
    schemes.name_nodes(model)
    operators = schemes.static_operators(model, parameters.operators)
    chosen = schemes.choose_nodes(model, operators, parameters.exclude_nodes)
    names = schemes.float_tensors(model, chosen)
    typed = {value.name: value for value in model.graph.value_info}
    given = {value.name for value in (*model.graph.output, *model.graph.input)}
    model.graph.output.extend(typed[name] for name in names if name not in given)
    onnx.save(model, str(out))
    return names


STEP = Step(
    name="calibrate",
    revision=2,
    requires=("model", "rows"),
    accepts=(FILES,),
    outputs=(RANGES, CALIBRATED),
    parameters=CalibrateParameters,
    result=CalibrateResult,
    run=run,
)
