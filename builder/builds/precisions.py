"""One precision of a model: which steps make it, and out of what."""

from dataclasses import replace

from builder.builds.inputs import BlobInput, DatasetInput
from builder.builds.runner import Finished, Runner
from builder.builds.targets import ONNX_TARGET, source_target
from builder.builds.work import Made, Source, Work, processing, saturation_warning
from builder.search.rules import CALIBRATORS
from builder.steps import bisect, calibrate, optimise, prune, quantise, shrink
from registry.contract.engines import BisectionReport, PruningReport
from registry.contract.identity import Digest, TargetName
from registry.contract.recipes import Int8Options, Precision


class Precisions:
    """ONNX files of one build. Every method raises what `Runner.run` raises."""

    def __init__(self, runner: Runner, work: Work) -> None:
        self._runner = runner
        self._work = work
        self._basic: dict[TargetName, Digest] = {}

    def made(
        self, source: Source, precision: Precision, target: TargetName, options: Int8Options, name: str
    ) -> Made:
        """The ONNX file for a target: what ONNX Runtime loads, and what others compile. `name`: whose steps
        these are."""
        found = self._made(source, precision, target, options, name)
        pruned = self.start(source)[1]
        return replace(found, onnx=found.digest, pruning=pruned)

    def start(self, source: Source) -> tuple[Digest, PruningReport | None]:
        """What all engines are made from: the source, or the source pruned."""
        asked = self._work.recipe.prune
        if asked is None:
            return source.model, None
        limits = self._work.recipe.tolerances
        found = self._runner.run(
            prune.STEP,
            prune.PruneParameters(
                target=source.target,
                options=asked,
                min_cosine=limits.min_cosine,
                min_sqnr_db=limits.min_sqnr_db,
            ),
            {"model": BlobInput(source.model), "sample": BlobInput(source.sample)},
        )
        return found.outputs[prune.MODEL], found.result.report

    def basic(self, source: Source, target: TargetName) -> Digest:
        """The model with ONNX's own operators only, made once per target."""
        if not self._work.recipe.optimise:
            return self.start(source)[0]
        if target not in self._basic:
            self._basic[target] = self._optimised(source, target, "basic", None).outputs["model.onnx"]
        return self._basic[target]

    def bisect(self, source: Source, made: Made, name: str) -> BisectionReport:
        """Raises Refused when nothing can be told apart."""
        assert made.base is not None and made.onnx is not None, "only what was changed is taken apart"
        found = self._runner.run(
            bisect.STEP,
            bisect.BisectParameters(
                target=ONNX_TARGET,
                nodes=made.quantised,
                min_sqnr_db=self._work.recipe.tolerances.min_sqnr_db,
            ),
            {
                "model": BlobInput(made.base),
                "engine": BlobInput(made.onnx),
                "sample": BlobInput(source.sample),
            },
            name,
        )
        result = found.result
        return BisectionReport(
            node=result.node,
            operator=result.operator,
            confirmed=result.confirmed,
            local_sqnr_db=result.local_sqnr_db,
            cut_sqnr_db=result.cut_sqnr_db,
            model=found.outputs[bisect.MODEL],
            inputs=found.outputs[bisect.TENSORS],
            ranking=result.ranking,
            says=result.says,
        )

    def _made(
        self, source: Source, precision: Precision, target: TargetName, options: Int8Options, name: str
    ) -> Made:
        here = source_target(target)
        match precision:
            case Precision.FP32:
                if not self._work.recipe.optimise:
                    return Made(self.start(source)[0], warnings=source.warnings)
                found = self._optimised(source, here, "extended", name)
                return Made(found.outputs["model.onnx"], warnings=source.warnings + found.result.warnings)
            case Precision.INT8_STATIC:
                model = self.basic(source, here)
                calibrated = self._calibrated(model, target, options, name)
                made = self._quantised(source, model, target, options, name, calibrated)
                return replace(
                    made,
                    calibrated=calibrated.outputs[calibrate.CALIBRATED],
                    calibration=calibrated.result.report(options.calibrator),
                    warnings=made.warnings + saturation_warning(options.reduce_range),
                )
            case Precision.INT8_DYNAMIC:
                return self._quantised(source, self.basic(source, here), target, options, name, None)
            case Precision.FP16:
                return self._shrunk(source, self.basic(source, here), target, "fp16", options, name)
            case Precision.INT8_WEIGHT_ONLY:
                return self._shrunk(source, self.basic(source, here), target, "int8", options, name)
            case Precision.INT4_GROUP:
                return self._shrunk(source, self.basic(source, here), target, "int4", options, name)

    def _optimised(
        self, source: Source, target: TargetName, level: optimise.Level, name: str | None
    ) -> Finished[optimise.OptimiseResult]:
        return self._runner.run(
            optimise.STEP,
            optimise.OptimiseParameters(target=target, level=level),
            {"model": BlobInput(self.start(source)[0]), "sample": BlobInput(source.sample)},
            name,
        )

    def _calibrated(
        self, model: Digest, target: TargetName, options: Int8Options, name: str
    ) -> Finished[calibrate.CalibrateResult]:
        """What a search excludes is calibrated too, and all calibrators at once: then one run is enough."""
        contract, rows = self._work.version.contract, self._work.calibration
        assert rows is not None, "check_recipe refuses static INT8 without a calibration set"
        recipe = self._work.recipe
        return self._runner.run(
            calibrate.STEP,
            calibrate.CalibrateParameters(
                target=target,
                signature=contract.signature,
                pipeline=processing(contract, rows.form),
                operators=options.operators,
                exclude_nodes=recipe.int8.exclude_nodes,
                calibrators=CALIBRATORS if recipe.search else (options.calibrator,),
                percentile=options.percentile,
            ),
            {"model": BlobInput(model), "rows": DatasetInput(rows), **self._work.files},
            name,
        )

    def _quantised(
        self,
        source: Source,
        model: Digest,
        target: TargetName,
        options: Int8Options,
        name: str,
        calibrated: Finished[calibrate.CalibrateResult] | None,
    ) -> Made:
        """Static with ranges, dynamic without."""
        ranges = {} if calibrated is None else {"ranges": BlobInput(calibrated.outputs[calibrate.RANGES])}
        found = self._runner.run(
            quantise.STEP,
            quantise.QuantiseParameters(
                target=target, mode="dynamic" if calibrated is None else "static", int8=options
            ),
            {"model": BlobInput(model), "sample": BlobInput(source.sample), **ranges},
            name,
        )
        result = found.result
        return Made(
            found.outputs[quantise.ENGINE],
            result.quantised,
            result.excluded,
            warnings=source.warnings,
            base=model,
        )

    def _shrunk(
        self,
        source: Source,
        model: Digest,
        target: TargetName,
        to: shrink.Kind,
        options: Int8Options,
        name: str,
    ) -> Made:
        found = self._runner.run(
            shrink.STEP,
            shrink.ShrinkParameters(
                target=target, to=to, block=options.block, exclude_nodes=options.exclude_nodes
            ),
            {"model": BlobInput(model), "sample": BlobInput(source.sample)},
            name,
        )
        return Made(
            found.outputs[shrink.ENGINE],
            found.result.shrunk,
            options.exclude_nodes,
            warnings=source.warnings + found.result.warnings,
            base=model,
        )
