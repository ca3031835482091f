"""judge: the source's answers on the validation rows, which every engine is paired with."""

from pathlib import Path

from builder.data.judging import BATCH_ROWS, Judgement, judge
from builder.data.prepare import FILES, files_of
from builder.judgement.metrics import judge_of
from builder.judgement.pairing import measured
from builder.steps.engines import opened
from builder.steps.step import Inputs, Step, StepResult
from registry.contract.identity import TargetName
from registry.contract.versions import MetricName, VersionContract
from registry.contract.wire import Wire

JUDGEMENTS = "judgements.jsonl"


class JudgeParameters(Wire):
    target: TargetName
    contract: VersionContract
    batchable: bool
    threads: int


class JudgeResult(StepResult):
    """`metric` None: not every row has a label, or the answers can't be judged by one."""

    rows: int
    labelled: int
    metric: MetricName | None
    value: float | None


def run(parameters: JudgeParameters, inputs: Inputs, out: Path) -> JudgeResult:
    answered: list[Judgement] = []
    with (
        opened(inputs["model"], parameters.target, parameters.threads) as engine,
        (out / JUDGEMENTS).open("wb") as lines,
    ):
        files = files_of(parameters.contract.pipeline, inputs)
        batch_rows = BATCH_ROWS if parameters.batchable else 1
        for judged in judge(engine, parameters.contract, inputs["rows"], batch_rows, files):
            answered.append(judged.judgement)
            lines.write(judged.judgement.model_dump_json().encode() + b"\n")
    by = judge_of(parameters.contract)
    value = measured(by, answered)
    metric = None if by is None or value is None else by.metric
    labelled = sum(one.truth is not None for one in answered)
    share = f", {metric} {value:.4f}" if metric else ""
    if not metric:
        share = ", without labels" if not labelled else f"; labels: {labelled}, and all of them count or none"
    return JudgeResult(
        says=f"the source answered {len(answered)} rows{share}",
        rows=len(answered),
        labelled=labelled,
        metric=metric,
        value=value,
    )


STEP = Step(
    name="judge",
    revision=2,
    requires=("model", "rows"),
    accepts=(FILES,),
    outputs=(JUDGEMENTS,),
    parameters=JudgeParameters,
    result=JudgeResult,
    run=run,
)
