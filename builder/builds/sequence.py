"""A build from end to end: the steps in their order, and one report per engine."""

from dataclasses import replace

from builder.builds.inputs import BlobInput, DatasetInput, FilesInput
from builder.builds.precisions import Precisions
from builder.builds.proofs import Proofs
from builder.builds.runner import Finished, Runner
from builder.builds.targets import ONNX_TARGET, Family, family_of, place_of_target, source_target
from builder.builds.work import Made, Source, Work, answering, engine_name, processing
from builder.frontends.plan import Format, plan
from builder.isolation.launch import place_of
from builder.search.attempts import Attempts
from builder.search.search import Bench
from builder.steps import (
    check,
    compile_openvino,
    compile_tensorrt,
    compile_torch,
    importing,
    judge,
    sample,
)
from builder.steps.step import Refused
from registry.contract.engines import EngineReport
from registry.contract.identity import Digest, TargetName
from registry.contract.recipes import Int8Options, Precision

UNVERIFIED = "unverified: it was built without a card and never ran on one, so it can't be released"


class Sequence:
    """Runs the steps of one build. Every method raises what `Runner.run` raises."""

    def __init__(self, runner: Runner, work: Work) -> None:
        self._runner = runner
        self._work = work
        self._precisions = Precisions(runner, work)

    def source(self) -> Source:
        """The steps that all engines share which come by way of ONNX."""
        work, contract = self._work, self._work.version.contract
        target = next(source_target(one) for one in work.recipe.targets if family_of(one) is not Family.TORCH)
        sampled = self._sampled()
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
            target=target,
        )

    def _sampled(self) -> Finished[sample.SampleStepResult]:
        contract, rows = self._work.version.contract, self._work.rows
        return self._runner.run(
            sample.STEP,
            sample.SampleParameters(
                signature=contract.signature, pipeline=processing(contract, rows.form if rows else None)
            ),
            self._work.files if rows is None else {"rows": DatasetInput(rows), **self._work.files},
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

    def engine(self, source: Source | None, precision: Precision, target: TargetName) -> EngineReport:
        """Raises Refused when there can be no such engine; one that fails a gate is reported with why.

        `source` may be None for PyTorch's own formats, which don't come by way of ONNX.
        """
        family = family_of(target)
        if family is Family.TORCH:
            native = self._native(precision, target)
            name = engine_name(precision, target)
            return self._proven(native, Made(native.model, warnings=native.warnings), precision, target, name)
        assert source is not None, "only PyTorch's own formats do without"
        return Attempts(self._bench(source, precision, target), self._work, precision, target).report()

    def _bench(self, source: Source, precision: Precision, target: TargetName) -> Bench:
        """One engine of a precision and a target: made, proven, taken apart."""
        way = self._precisions.made if family_of(target) is Family.ORT else self._compiled
        return Bench(
            make=lambda options, name: way(source, precision, target, options, name),
            prove=lambda made, name: self._proven(source, made, precision, target, name),
            bisect=lambda made, name: self._precisions.bisect(source, made, name),
        )

    def _proven(
        self, source: Source, made: Made, precision: Precision, target: TargetName, name: str
    ) -> EngineReport:
        proofs = Proofs(self._runner, self._work, source, made, precision, target, name)
        return proofs.report(self._runner.size_of(made.digest))

    def _native(self, precision: Precision, target: TargetName) -> Source:
        """An engine in PyTorch's own format, which is its own source: the step that makes it holds it against
        the framework's model."""
        work, contract = self._work, self._work.version.contract
        if precision is not Precision.FP32:
            raise Refused(f"{target} runs a model as it came, so there is fp32 alone; {precision} needs ONNX")
        sampled = self._sampled()
        version = FilesInput.of_model(work.version)
        made = self._runner.run(
            compile_torch.STEP,
            compile_torch.CompileTorchParameters(
                target=target,
                framework=work.version.framework,
                files=tuple(file.path for file in version.files),
                source=contract.source,
                signature=contract.signature,
                max_rows=contract.batch.max_rows,
            ),
            {"version": version, "sample": BlobInput(sampled.outputs["sample.npz"])},
            engine_name(precision, target),
            place=place_of_target(target, work.allow_code),
        )
        model = made.outputs[compile_torch.ENGINE]
        return Source(
            model=model,
            sample=sampled.outputs["sample.npz"],
            made_up=sampled.result.made_up,
            batchable=made.result.batchable,
            warnings=made.result.warnings,
            judgements=self._judgements(model, target, made.result.batchable),
            target=target,
        )

    def _compiled(
        self, source: Source, precision: Precision, target: TargetName, options: Int8Options, name: str
    ) -> Made:
        """What is compiled holds ONNX's own operators only: other runtimes don't know ONNX Runtime's."""
        if precision is Precision.FP32:
            made = Made(self._precisions.basic(source, ONNX_TARGET), warnings=source.warnings)
        else:
            made = self._precisions.made(source, precision, target, options, name)
        inputs = {"model": BlobInput(made.digest), "sample": BlobInput(source.sample)}
        place = place_of_target(target, self._work.allow_code)
        if family_of(target) is Family.OPENVINO:
            found = self._runner.run(
                compile_openvino.STEP,
                compile_openvino.CompileOpenVinoParameters(target=target),
                inputs,
                name,
                place=place,
            )
            return replace(made, digest=found.outputs[compile_openvino.ENGINE])
        built = self._runner.run(
            compile_tensorrt.STEP,
            compile_tensorrt.CompileTensorRtParameters(
                target=target, max_rows=self._work.version.contract.batch.max_rows if source.batchable else 1
            ),
            inputs,
            name,
            place=place,
        )
        unseen = () if built.result.verified else (UNVERIFIED,)
        return replace(made, digest=built.outputs[compile_tensorrt.ENGINE], warnings=made.warnings + unseen)

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
            place=place_of_target(target, self._work.allow_code),
        )
        return judged.outputs[judge.JUDGEMENTS]
