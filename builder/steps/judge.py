"""judge: the source's answers on the validation rows, which every engine is paired with."""

from pathlib import Path

from builder.judging import BATCH_ROWS, judge
from builder.prepare import FILES, files_of
from builder.steps.engines import opened
from builder.steps.step import Inputs, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.versions import VersionContract
from registry.contract.wire import Wire

JUDGEMENTS = "judgements.jsonl"


class JudgeParameters(Wire):
    target: TargetName
    contract: VersionContract
    batchable: bool
    threads: int


class JudgeResult(StepResult):
    rows: int
    right: int
    labelled: int


def run(parameters: JudgeParameters, inputs: Inputs, out: Path) -> JudgeResult:
    rows = right = labelled = 0
    with (
        opened(inputs["model"], parameters.target, parameters.threads) as engine,
        (out / JUDGEMENTS).open("wb") as lines,
    ):
        files = files_of(parameters.contract.pipeline, inputs)
        batch_rows = BATCH_ROWS if parameters.batchable else 1
        for judged in judge(engine, parameters.contract, inputs["rows"], batch_rows, files):
            one = judged.judgement
            rows += 1
            labelled += one.truth is not None
            right += one.truth is not None and one.truth == one.label
            lines.write(one.model_dump_json().encode() + b"\n")
    share = f", {right / labelled:.4f} of {labelled} labels right" if labelled else ", without labels"
    return JudgeResult(
        says=f"the source answered {rows} rows{share}", rows=rows, right=right, labelled=labelled
    )


STEP = Step(
    name="judge",
    revision=1,
    requires=("model", "rows"),
    accepts=(FILES,),
    outputs=(JUDGEMENTS,),
    parameters=JudgeParameters,
    result=JudgeResult,
    run=run,
)
