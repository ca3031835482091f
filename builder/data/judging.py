"""What an engine answers on every row of a data set: the raw material of validation and of references."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from builder.data.prepare import read_samples_of
from builder.data.rows import Row
from builder.data.samples import Sample, fingerprint, shapes
from builder.judgement.matching import Box
from builder.judgement.metrics import Judge, Said, judge_of
from builder.steps.engines import run_batch
from builder.steps.step import Refused
from registry.contract.versions import VersionContract
from registry.contract.wire import Wire
from serving.pipeline.answers import Answer, AnswerValue
from serving.pipeline.errors import IllegalAnswer, PipelineMismatch
from serving.pipeline.files import NO_FILES, Files
from serving.pipeline.processing import Postprocess, post
from serving.runtimes.errors import RuntimeFault
from serving.runtimes.protocol import LoadedEngine, Tensors

BATCH_ROWS = 16
# Enough to see a difference between two answers made of many numbers.
MOST_VALUES = 256


class Judgement(Wire):
    """One row. `truth`: the data set's label. What the answer says is in `label` (labels and texts), `number`
    or `boxes` (tags too), by the contract's metric; `values` are the answer's numbers where it has none.
    `legal` False: there is no answer, or one that can't be right. `fingerprint`: of the engine's inputs."""

    key: str
    fingerprint: str
    truth: str | None
    legal: bool = True
    label: str | None = None
    number: float | None = None
    boxes: tuple[Box, ...] | None = None
    values: tuple[float, ...] = ()

    @property
    def said(self) -> Said | None:
        """None: nothing that a metric could judge."""
        if self.label is not None:
            return self.label
        return self.number if self.number is not None else self.boxes


@dataclass(frozen=True, slots=True)
class Judged:
    judgement: Judgement
    answer: Answer | None
    tensors: Tensors


def judge(
    engine: LoadedEngine,
    contract: VersionContract,
    rows: Path,
    batch_rows: int,
    files: Files = NO_FILES,
    only: Container[str] | None = None,
) -> Iterator[Judged]:
    """Every row's answer (or of those whose keys are in `only`), in order.

    Batches hold neighbours of equal shapes, at most `batch_rows`.

    An answer that isn't legal, or a run that fails on a row, is an answer that is always wrong.
    """
    try:
        answers = post(contract.pipeline, contract.signature, files)
    except PipelineMismatch as error:
        raise Refused(f"the version's post-processing doesn't fit its signature: {error}") from error
    by = judge_of(contract)
    waiting: list[tuple[Row, Sample]] = []
    for row, sample in read_samples_of(rows, contract.pipeline, contract.signature, only, files):
        full = len(waiting) >= batch_rows
        if waiting and (full or shapes(waiting[0][1].tensors) != shapes(sample.tensors)):
            yield from _judge_batch(engine, answers, by, waiting)
            waiting = []
        waiting.append((row, sample))
    if waiting:
        yield from _judge_batch(engine, answers, by, waiting)


def _judge_batch(
    engine: LoadedEngine, answers: Postprocess, by: Judge | None, batch: list[tuple[Row, Sample]]
) -> Iterator[Judged]:
    try:
        outputs = run_batch(engine, [sample for _, sample in batch])
    except (RuntimeFault, IllegalAnswer):
        if len(batch) > 1:
            for one in batch:
                yield from _judge_batch(engine, answers, by, [one])
            return
        yield _judged(*batch[0], None, by)
        return
    for (row, sample), output in zip(batch, outputs, strict=True):
        try:
            answer = answers(output, 1, sample.place)[0]
        except IllegalAnswer:
            yield _judged(row, sample, None, by)
        else:
            yield _judged(row, sample, answer, by)


def _judged(row: Row, sample: Sample, answer: Answer | None, by: Judge | None) -> Judged:
    said = by.said(answer) if by is not None and answer is not None else None
    numbers = _numbers(list(answer.values())) if answer is not None and by is None else ()
    judgement = Judgement(
        key=row.key,
        fingerprint=fingerprint(sample.tensors),
        truth=row.label,
        legal=answer is not None,
        label=said if isinstance(said, str) else None,
        number=said if isinstance(said, float) else None,
        boxes=said if isinstance(said, tuple) else None,
        values=tuple(islice(numbers, MOST_VALUES)),
    )
    return Judged(judgement, answer, sample.tensors)


def _numbers(value: AnswerValue) -> Iterator[float]:
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, int | float):
        yield float(value)
