"""validate: the engine's answers paired with the source's, row by row, and what they prove."""

from collections.abc import Iterator
from pathlib import Path

from builder.data.judging import BATCH_ROWS, Judgement, judge
from builder.data.prepare import FILES, files_of
from builder.judgement.metrics import judge_of
from builder.judgement.pairing import pair_rows
from builder.judgement.references import References
from builder.judgement.verdict import validation_report
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.datasets import RowForm
from registry.contract.engines import ScoreReference, ValidationReport
from registry.contract.identity import TargetName
from registry.contract.versions import DatasetRef, VersionContract
from registry.contract.wire import Wire


class ValidateParameters(Wire):
    target: TargetName
    contract: VersionContract
    dataset: DatasetRef
    form: RowForm
    max_loss: float
    batchable: bool
    threads: int


class ValidateResult(StepResult):
    report: ValidationReport
    references: tuple[ScoreReference, ...]
    left_out: int


def run(parameters: ValidateParameters, inputs: Inputs, out: Path) -> ValidateResult:
    calibrated: frozenset[str] = frozenset()
    if "calibrated" in inputs:
        calibrated = frozenset(inputs["calibrated"].read_text().split())
    references = References(parameters.contract)
    sources: list[Judgement] = []
    engines: list[Judgement] = []
    left_out = 0
    recorded = _judgements(inputs["judgements"])
    with opened(inputs["engine"], parameters.target, parameters.threads) as engine:
        files = files_of(parameters.contract.pipeline, inputs)
        batch_rows = BATCH_ROWS if parameters.batchable else 1
        for judged in judge(engine, parameters.contract, inputs["rows"], batch_rows, files):
            source = next(recorded, None)
            if source is None or source.key != judged.judgement.key:
                raise Refused(
                    f"row {judged.judgement.key!r} is not where it was when the source was judged; "
                    "judge and validate on one data set"
                )
            if judged.judgement.fingerprint in calibrated:
                left_out += 1
                continue
            if judged.answer is not None:
                references.add(judged.answer)
            sources.append(source)
            engines.append(judged.judgement)
    pairing = pair_rows(judge_of(parameters.contract), sources, engines)
    report, says = validation_report(
        pairing, parameters.dataset, parameters.form, parameters.max_loss, left_out
    )
    return ValidateResult(says=says, report=report, references=references.all(), left_out=left_out)


def _judgements(path: Path) -> Iterator[Judgement]:
    with path.open("rb") as lines:
        for line in lines:
            yield Judgement.model_validate_json(line)


STEP = Step(
    name="validate",
    revision=2,
    requires=("engine", "rows", "judgements"),
    accepts=("calibrated", FILES),
    outputs=(),
    parameters=ValidateParameters,
    result=ValidateResult,
    run=run,
)
