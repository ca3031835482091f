"""One run of an engine: the works that share it, and how its outputs become each one's own."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from serving.engine.client import EngineClient
from serving.gateway.faults import IllegalAnswer
from serving.gateway.work import Ran, Work
from serving.pipeline import errors as pipeline_errors
from serving.pipeline.answers import RowAnswer
from serving.pipeline.padding import Filler
from serving.runtimes.protocol import Array


@dataclass(slots=True)
class Run:
    engine: EngineClient
    works: list[Work]
    rows: int
    begun: float
    limit: asyncio.TimerHandle


class Judging(Protocol):
    """Answers of a run's outputs, made elsewhere."""

    async def answer(self) -> Sequence[RowAnswer]:
        """Raises Fault."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Works of one run whose outputs are judged together."""

    works: list[Work]
    outputs: dict[str, Array]
    run: Run
    engine_s: float

    @property
    def rows(self) -> int:
        return sum(work.rows for work in self.works)

    def tell(self, answers: Sequence[RowAnswer], post_s: float) -> None:
        at = 0
        for work, own in zip(self.works, parts(self.works, self.outputs), strict=True):
            mine = answers[at : at + work.rows]
            queue_s = self.run.begun - work.arrived
            _tell(work, Ran(work.rows, own, mine, queue_s, self.engine_s, post_s, self.run.rows))
            at += work.rows


def _tell(work: Work, ran: Ran) -> None:
    for answer in ran.answers:
        if isinstance(answer, pipeline_errors.IllegalAnswer):
            work.fail(IllegalAnswer(answer.reason))
            return
    work.succeed(ran)


def parts(works: list[Work], outputs: dict[str, Array]) -> list[dict[str, Array]]:
    """Each one's own rows, as views."""
    if len(works) == 1:
        return [outputs]
    found: list[dict[str, Array]] = []
    at = 0
    for work in works:
        found.append({name: array[at : at + work.rows] for name, array in outputs.items()})
        at += work.rows
    return found


def pieces(
    run: Run, outputs: dict[str, Array], filler: Filler | None
) -> list[tuple[list[Work], dict[str, Array]]]:
    """What is judged together: the run, or each request where outputs have to be cut to its length."""
    works = run.works
    if filler is None or not filler.cuts or len({filler.length(work.inputs) for work in works}) == 1:
        return [(works, outputs)]
    return [
        ([work], filler.cut(own, filler.length(work.inputs)))
        for work, own in zip(works, parts(works, outputs), strict=True)
    ]
