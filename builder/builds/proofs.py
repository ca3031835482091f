"""The gates of one engine, cheapest first; the dear one is left out once another has refused."""

from collections.abc import Mapping

from builder.builds import facts
from builder.builds.inputs import BlobInput, DatasetInput, Input
from builder.builds.runner import Runner
from builder.builds.targets import place_of_target
from builder.builds.work import Made, Source, Work, answering, engine_key, processing, tools
from builder.judgement import gates
from builder.steps import bench, coverage, golden, parity, validate
from builder.steps.step import P, R, Refused, Step
from registry.contract.engines import (
    BenchReport,
    CoverageReport,
    EngineReport,
    Gate,
    GateOutcome,
    GoldenReport,
)
from registry.contract.identity import TargetName
from registry.contract.recipes import Precision


class Proofs:
    """`report` runs every gate once. A step that refuses its input refuses the engine, in its own words.

    `name`: whose steps these are.
    """

    def __init__(
        self,
        runner: Runner,
        work: Work,
        source: Source,
        made: Made,
        precision: Precision,
        target: TargetName,
        name: str,
    ) -> None:
        self._runner = runner
        self._work = work
        self._source = source
        self._made = made
        self._precision = precision
        self._target = target
        self._place = place_of_target(target, work.allow_code)
        self._name = name
        self._engine = BlobInput(made.digest)
        self._gates: list[Gate] = []

    def report(self, size: int) -> EngineReport:
        """`size` of the engine in bytes. Raises StepFailed, LeaseLost, and what moving bytes raises."""
        agreed = self._parity()
        max_rows = self._work.version.contract.batch.max_rows
        batchable = agreed is not None and self._batchable(agreed)
        paired = self._golden(batchable)
        measured = self._bench(max_rows if batchable else 1)
        judged = self._validation(batchable)
        covered, uncovered = self._coverage()
        return EngineReport(
            precision=self._precision,
            target=self._target,
            digest=self._made.digest,
            size=size,
            memory_bytes=max(size, measured.memory_bytes if measured else 0),
            key=engine_key(self._work, self._precision, self._target),
            tools=tools(self._work, self._target),
            quantised=self._made.quantised,
            excluded=self._made.excluded,
            gates=tuple(self._gates),
            golden=paired,
            parity=agreed.report if agreed else None,
            validation=judged.report if judged else None,
            bench=measured,
            references=judged.references if judged else (),
            warnings=self._made.warnings + self._warnings(agreed) + uncovered,
            input_shapes=agreed.input_shapes if agreed else {},
            batchable=batchable,
            coverage=covered,
            calibration=self._made.calibration,
            pruning=self._made.pruning,
        )

    def _batchable(self, agreed: parity.ParityResult) -> bool:
        """Rows may share a run: that changes no answer, or the recipe accepts that it does."""
        accepted = self._work.recipe.tolerances.batch_mates == "accepted"
        return agreed.batchable or (accepted and not agreed.report.batch_invariant)

    def _parity(self) -> parity.ParityResult | None:
        parameters = parity.ParityParameters(
            target=self._target,
            max_rows=self._work.version.contract.batch.max_rows if self._source.batchable else 1,
            classes=self._work.classes,
            source_target=self._source.target,
        )
        result = self._gate(
            "parity",
            parity.STEP,
            parameters,
            {
                "source": BlobInput(self._source.model),
                "engine": self._engine,
                "sample": BlobInput(self._source.sample),
            },
        )
        if result is not None:
            self._gates.append(gates.parity_gate(result.report, self._work.recipe.tolerances))
        return result

    def _golden(self, batchable: bool) -> GoldenReport | None:
        digest = self._work.golden
        if digest is None:
            self._gates.append(gates.golden_gate(None))
            return None
        contract, tolerances = self._work.version.contract, self._work.recipe.tolerances
        parameters = golden.GoldenParameters(
            target=self._target,
            signature=contract.signature,
            pipeline=contract.pipeline,
            exact=self._precision is Precision.FP32,
            max_abs=tolerances.golden_max_abs,
            min_cosine=tolerances.min_cosine,
            max_flip_rate=tolerances.max_flip_rate,
            max_rows=contract.batch.max_rows if batchable else 1,
        )
        result = self._gate(
            "golden",
            golden.STEP,
            parameters,
            {"engine": self._engine, "golden": BlobInput(digest), **self._work.files},
        )
        if result is None:
            return None
        self._gates.append(gates.golden_gate(result.report))
        return result.report

    def _bench(self, max_rows: int) -> BenchReport | None:
        contract = self._work.version.contract
        rows = self._work.rows
        parameters = bench.BenchParameters(
            target=self._target,
            signature=contract.signature,
            pipeline=processing(contract, rows.form if rows else None),
            max_rows=max_rows,
            source_target=self._source.target,
        )
        result = self._gate(
            "speed",
            bench.STEP,
            parameters,
            {
                "source": BlobInput(self._source.model),
                "engine": self._engine,
                "sample": BlobInput(self._source.sample),
                **self._work.files,
            },
            facts.performance(),
        )
        if result is None:
            return None
        self._gates.append(gates.speed_gate(result.report, self._precision, self._work.recipe.tolerances))
        return result.report

    def _validation(self, batchable: bool) -> validate.ValidateResult | None:
        dataset, judgements = self._work.validation, self._source.judgements
        refused = gates.refused(tuple(self._gates))
        if dataset is None or judgements is None or refused:
            skipped = f"not run: the engine is {refused} already" if refused else ""
            self._gates.append(gates.validation_gate(None, skipped, ""))
            self._runner.skip(validate.STEP.name, self._name, self._gates[-1].reason)
            return None
        parameters = validate.ValidateParameters(
            target=self._target,
            contract=answering(self._work.version.contract, dataset.form, watched=True),
            dataset=dataset.ref,
            form=dataset.form,
            max_loss=self._work.recipe.tolerances.max_loss,
            batchable=batchable,
            threads=self._work.threads,
        )
        inputs: dict[str, Input] = {
            "engine": self._engine,
            "rows": DatasetInput(dataset),
            "judgements": BlobInput(judgements),
            **self._work.files,
        }
        if self._made.calibrated is not None:
            inputs["calibrated"] = BlobInput(self._made.calibrated)
        result = self._gate("validation", validate.STEP, parameters, inputs)
        if result is not None:
            self._gates.append(gates.validation_gate(result.report, "", result.says))
        return result

    def _coverage(self) -> tuple[CoverageReport | None, tuple[str, ...]]:
        """Of an engine that was calibrated: the report, and what people should be warned of."""
        work, ours, theirs = self._work, self._work.calibration, self._work.validation
        if self._made.calibrated is None or ours is None or theirs is None:
            return None, ()
        contract = work.version.contract
        parameters = coverage.CoverageParameters(
            target=self._target,
            contract=answering(contract, ours.form, watched=True),
            validation_contract=answering(contract, theirs.form, watched=True),
            dataset=ours.ref,
            against=theirs.ref,
            batchable=self._source.batchable,
            threads=work.threads,
        )
        inputs: dict[str, Input] = {
            "model": BlobInput(self._source.model),
            "calibration": DatasetInput(ours),
            "rows": DatasetInput(theirs),
            **work.files,
        }
        try:
            found = self._runner.run(coverage.STEP, parameters, inputs, self._name).result
        except Refused as refused:
            return None, (f"the calibration set can't be compared with the validation set: {refused}",)
        return found.report, (found.says,) if found.report.flagged else ()

    def _gate(
        self,
        name: gates.GateName,
        step: Step[P, R],
        parameters: P,
        inputs: Mapping[str, Input],
        extra: Mapping[str, str] | None = None,
    ) -> R | None:
        """None: the step refused its input, and the gate is failed with its words."""
        try:
            return self._runner.run(step, parameters, inputs, self._name, extra, self._place).result
        except Refused as refused:
            self._gates.append(Gate(name=name, outcome=GateOutcome.FAILED, reason=str(refused)))
            return None

    def _warnings(self, agreed: parity.ParityResult | None) -> tuple[str, ...]:
        found = []
        if self._source.made_up:
            found.append("proven on made-up rows only: the recipe names no data set")
        if agreed is not None and not agreed.report.batch_invariant:
            batched = self._batchable(agreed)
            so = "it is batched all the same, as the recipe accepts" if batched else "it is never batched"
            found.append(f"a row's answer depends on its batch mates; {so}")
        return tuple(found)
