"""What an engine answers on every row of a data set: the raw material of validation and of references."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.prepare import read_samples_of
from builder.rows import Row
from builder.samples import Sample, fingerprint, shapes
from builder.steps.engines import run_batch
from builder.steps.step import Refused
from registry.contract.versions import VersionContract
from registry.contract.wire import Wire
from serving.pipeline.answers import Answer, AnswerValue
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.processing import Postprocess, post
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine

BATCH_ROWS = 16
# Enough to see a difference between two answers made of many numbers.
MOST_VALUES = 256
ILLEGAL = "(no legal answer)"


class Judgement(Wire):
    """One row. `label` is the answer's label, `truth` the data set's; `values` are the answer's numbers where
    it has no label. `fingerprint` is that of the engine's inputs."""

    key: str
    fingerprint: str
    truth: str | None
    label: str | None = None
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    judgement: Judgement
    answer: Answer | None


def judge(
    engine: LoadedEngine,
    contract: VersionContract,
    rows: Path,
    batch_rows: int,
    files: Files = NO_FILES,
) -> Iterator[Judged]:
    """Every row's answer, in order. Batches hold neighbours of equal shapes, at most `batch_rows`.

    An answer that isn't legal, or a run that fails on a row, is an answer that is always wrong.
    """
    try:
        answers = post(contract.pipeline, contract.signature, files)
    except PipelineMismatch as error:
        raise Refused(f"the version's post-processing doesn't fit its signature: {error}") from error
    waiting: list[tuple[Row, Sample]] = []
    for row, sample in read_samples_of(rows, contract.pipeline, contract.signature, files=files):
        full = len(waiting) >= batch_rows
        if waiting and (full or shapes(waiting[0][1].tensors) != shapes(sample.tensors)):
            yield from _judge_batch(engine, answers, waiting)
            waiting = []
        waiting.append((row, sample))
    if waiting:
        yield from _judge_batch(engine, answers, waiting)


def _judge_batch(
    engine: LoadedEngine, answers: Postprocess, batch: list[tuple[Row, Sample]]
) -> Iterator[Judged]:
    try:
        outputs = run_batch(engine, [sample for _, sample in batch])
    except (RuntimeFault, IllegalAnswer):
        if len(batch) > 1:
            for one in batch:
                yield from _judge_batch(engine, answers, [one])
            return
        yield _judged(*batch[0], None)
        return
    for (row, sample), output in zip(batch, outputs, strict=True):
        try:
            answer = answers(output, 1, sample.place)[0]
        except IllegalAnswer:
            yield _judged(row, sample, None)
        else:
            yield _judged(row, sample, answer)


def _judged(row: Row, sample: Sample, answer: Answer | None) -> Judged:
    label: str | None = ILLEGAL
    values: tuple[float, ...] = ()
    if answer is not None:
        given = answer.get("label")
        label = None if given is None else str(given)
        values = () if label is not None else tuple(_numbers(list(answer.values())))[:MOST_VALUES]
    judgement = Judgement(
        key=row.key, fingerprint=fingerprint(sample.tensors), truth=row.label, label=label, values=values
    )
    return Judged(judgement, answer)


def _numbers(value: AnswerValue) -> Iterator[float]:
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, int | float):
        yield float(value)
