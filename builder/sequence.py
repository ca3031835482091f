"""A build from end to end: the steps in their order, and one report per engine."""

from collections.abc import Mapping

from builder.frontends.plan import Format, plan
from builder.inputs import BlobInput, DatasetInput, FilesInput, Input
from builder.launch import place_of
from builder.proofs import Proofs
from builder.runner import Finished, Runner
from builder.steps import calibrate, check, importing, judge, optimise, quantise, sample
from builder.steps.step import Refused
from builder.work import BUILT, Made, Source, Work, answering, engine_name, processing, saturation_warning
from registry.contract.engines import EngineReport
from registry.contract.identity import Digest, TargetName
from registry.contract.recipes import Precision


class Sequence:
    """Runs the steps of one build. Every method raises what `Runner.run` raises."""

    def __init__(self, runner: Runner, work: Work) -> None:
        self._runner = runner
        self._work = work
        self._basic: dict[TargetName, Digest] = {}

    def source(self) -> Source:
        """The steps that all engines share."""
        work, contract = self._work, self._work.version.contract
        target = work.recipe.targets[0]
        rows = work.rows
        sampled = self._runner.run(
            sample.STEP,
            sample.SampleParameters(
                signature=contract.signature, pipeline=processing(contract, rows.form if rows else None)
            ),
            self._work.files if rows is None else {"rows": DatasetInput(rows), **self._work.files},
        )
        small = BlobInput(sampled.outputs["sample.npz"])
        imported = self._imported(small)
        checked = self._runner.run(
            check.STEP,
            check.CheckParameters(
                signature=contract.signature,
                target=target,
                max_rows=contract.batch.max_rows,
                opset=work.recipe.opset,
            ),
            {"model": BlobInput(imported.outputs["model.onnx"]), "sample": small},
        )
        model = checked.outputs["model.onnx"]
        return Source(
            model=model,
            sample=small.digest,
            made_up=sampled.result.made_up,
            batchable=checked.result.batchable,
            warnings=imported.result.warnings + checked.result.warnings,
            judgements=self._judgements(model, target, checked.result.batchable),
        )

    def _imported(self, small: BlobInput) -> Finished[importing.ImportResult]:
        """An ONNX file is taken as it is. Another framework's is imported by the contract, in that
        framework's environment, and tried on the sample's rows there."""
        work, contract = self._work, self._work.version.contract
        version = FilesInput.of_model(work.version)
        files = tuple(file.path for file in version.files)
        found = plan(work.version.framework, files, contract.source)
        parameters = importing.ImportParameters(
            framework=work.version.framework, files=files, source=contract.source
        )
        if found.format is Format.ONNX:
            return self._runner.run(importing.STEP, parameters, {"version": version})
        return self._runner.run(
            importing.STEP,
            parameters.model_copy(
                update={
                    "options": work.recipe.importing,
                    "signature": contract.signature,
                    "max_rows": contract.batch.max_rows,
                    "opset": work.recipe.opset,
                }
            ),
            {"version": version, "sample": small},
            place=place_of(found, work.allow_code),
        )

    def engine(self, source: Source, precision: Precision, target: TargetName) -> EngineReport:
        """Raises Refused when there can be no such engine; one that fails a gate is reported with why."""
        made = self._make(source, precision, target)
        proofs = Proofs(self._runner, self._work, source, made, precision, target)
        return proofs.report(self._runner.size_of(made.digest))

    def _judgements(self, model: Digest, target: TargetName, batchable: bool) -> Digest | None:
        if self._work.validation is None:
            return None
        judged = self._runner.run(
            judge.STEP,
            judge.JudgeParameters(
                target=target,
                contract=answering(self._work.version.contract, self._work.validation.form, watched=False),
                batchable=batchable,
                threads=self._work.threads,
            ),
            {"model": BlobInput(model), "rows": DatasetInput(self._work.validation), **self._work.files},
        )
        return judged.outputs[judge.JUDGEMENTS]

    def _make(self, source: Source, precision: Precision, target: TargetName) -> Made:
        name = engine_name(precision, target)
        match precision:
            case Precision.FP32:
                if not self._work.recipe.optimise:
                    return Made(source.model, warnings=source.warnings)
                found = self._optimised(source, target, "extended", name)
                return Made(found.outputs["model.onnx"], warnings=source.warnings + found.result.warnings)
            case Precision.INT8_STATIC:
                model = self._quantisable(source, target)
                calibrated = self._calibrated(model, target, name)
                ranges = {"ranges": BlobInput(calibrated.outputs[calibrate.RANGES])}
                made = self._quantised(source, model, target, "static", ranges, name)
                return Made(
                    made.digest,
                    made.quantised,
                    made.excluded,
                    calibrated.outputs[calibrate.CALIBRATED],
                    made.warnings + saturation_warning(),
                )
            case Precision.INT8_DYNAMIC:
                model = self._quantisable(source, target)
                return self._quantised(source, model, target, "dynamic", {}, name)
            case Precision.FP16 | Precision.INT8_WEIGHT_ONLY | Precision.INT4_GROUP:
                raise Refused(f"this worker doesn't build {precision}; it builds {', '.join(BUILT)}")

    def _optimised(
        self, source: Source, target: TargetName, level: optimise.Level, engine: str | None
    ) -> Finished[optimise.OptimiseResult]:
        return self._runner.run(
            optimise.STEP,
            optimise.OptimiseParameters(target=target, level=level),
            {"model": BlobInput(source.model), "sample": BlobInput(source.sample)},
            engine,
        )

    def _quantisable(self, source: Source, target: TargetName) -> Digest:
        """The model with ONNX's own operators only, made once per target."""
        if not self._work.recipe.optimise:
            return source.model
        if target not in self._basic:
            self._basic[target] = self._optimised(source, target, "basic", None).outputs["model.onnx"]
        return self._basic[target]

    def _calibrated(
        self, model: Digest, target: TargetName, engine: str
    ) -> Finished[calibrate.CalibrateResult]:
        contract = self._work.version.contract
        assert self._work.calibration is not None, (
            "check_recipe refuses static INT8 without a calibration set"
        )
        return self._runner.run(
            calibrate.STEP,
            calibrate.CalibrateParameters(
                target=target,
                signature=contract.signature,
                pipeline=processing(contract, self._work.calibration.form),
                int8=self._work.recipe.int8,
            ),
            {"model": BlobInput(model), "rows": DatasetInput(self._work.calibration), **self._work.files},
            engine,
        )

    def _quantised(
        self,
        source: Source,
        model: Digest,
        target: TargetName,
        mode: quantise.Mode,
        more: Mapping[str, Input],
        engine: str,
    ) -> Made:
        found = self._runner.run(
            quantise.STEP,
            quantise.QuantiseParameters(target=target, mode=mode, int8=self._work.recipe.int8),
            {"model": BlobInput(model), "sample": BlobInput(source.sample), **more},
            engine,
        )
        result = found.result
        return Made(
            found.outputs[quantise.ENGINE], result.quantised, result.excluded, warnings=source.warnings
        )
