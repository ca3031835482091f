"""coverage: the calibration set beside the validation set, as the source sees both."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from builder.data.judging import BATCH_ROWS, judge
from builder.data.prepare import FILES, files_of
from builder.data.rows import read_labels
from builder.judgement import coverage
from builder.steps.engines import opened
from builder.steps.step import Inputs, Refused, Step, StepResult
from registry.contract.engines import CoverageReport
from registry.contract.identity import TargetName
from registry.contract.versions import DatasetRef, VersionContract
from registry.contract.wire import Wire
from serving.pipeline.errors import PipelineMismatch
from serving.pipeline.observe import Observer


class CoverageParameters(Wire):
    """`contract` and `validation_contract`: as `answering` makes them of each set's form. At most `rows` of
    each set are looked at."""

    target: TargetName
    contract: VersionContract
    validation_contract: VersionContract
    dataset: DatasetRef
    against: DatasetRef
    batchable: bool
    threads: int = 1
    rows: int = 512


class CoverageResult(StepResult):
    report: CoverageReport


def run(parameters: CoverageParameters, inputs: Inputs, out: Path) -> CoverageResult:
    ours = list(_rows(parameters, parameters.contract, inputs, "calibration"))
    theirs = list(_rows(parameters, parameters.validation_contract, inputs, "rows"))
    report = coverage.coverage(ours, theirs, parameters.dataset, parameters.against)
    return CoverageResult(says=coverage.sentence(report), report=report)


def _rows(
    parameters: CoverageParameters, contract: VersionContract, inputs: Inputs, name: str
) -> Iterator[coverage.Features]:
    folder = inputs[name]
    keys = sorted(read_labels(folder), key=lambda key: hashlib.sha256(key.encode()).digest())
    only = frozenset(keys[: parameters.rows])
    files = files_of(contract.pipeline, inputs)
    try:
        observe = Observer(contract)
    except PipelineMismatch as error:
        raise Refused(f"the contract's observables don't fit its answers: {error}") from error
    with opened(inputs["model"], parameters.target, parameters.threads) as engine:
        batch_rows = BATCH_ROWS if parameters.batchable else 1
        for one in judge(engine, contract, folder, batch_rows, files, only):
            found: dict[str, float | str] = dict(coverage.features(one.tensors))
            if one.answer is not None:
                found |= {f"answer {observed}": value for observed, value in observe(one.answer)}
            yield found


STEP = Step(
    name="coverage",
    revision=1,
    requires=("model", "calibration", "rows"),
    accepts=(FILES,),
    outputs=(),
    parameters=CoverageParameters,
    result=CoverageResult,
    run=run,
)
