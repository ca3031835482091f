"""Idle batching: what waits for an engine runs as soon as the engine is free. No timer decides.

One lane per engine; in it one queue per key (dtype and shape without the batch axis), so that lengths never
mix; a lane belongs to one arm, so that arms never mix. Rows are counted, not requests. Who left or is late
leaves before a batch is formed. A failing batch runs again by halves, so that one poisoned request fails
alone. The slot belongs to the work: a run whose callers are all gone still keeps the engine until it ends or
its hard limit is over.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from serving.engine.answers import EngineAnswer
from serving.engine.client import EngineClient
from serving.engine.errors import EngineError, EngineFailed, EngineLost
from serving.gateway.faults import (
    Fault,
    IllegalAnswer,
    PipelineFault,
    Rerouted,
    RunFault,
    Shed,
    TimedOut,
    Withdrawn,
)
from serving.gateway.runs import Judging, Piece, Run, pieces
from serving.gateway.work import LOSSES_ALLOWED, Work
from serving.pipeline.answers import RowAnswer
from serving.pipeline.batch import concat
from serving.pipeline.padding import Filler
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array

LOW_LIMIT = 16
_RECENT = 0.2


@dataclass(frozen=True, slots=True)
class LaneRules:
    """`together`: requests may share a run. `rows_out`: outputs have the batch axis first.

    `queue_rows`: rows that may wait. `run_limit_s`: a run that takes longer means a lost engine.
    """

    max_rows: int
    together: bool
    rows_out: bool
    queue_rows: int
    run_limit_s: float


class Lane:
    """`judge(outputs, rows)` makes the answers of a whole run (see Plan.judge); `on_run(works, rows,
    engine_us)` is told each run that ended well; `on_overdue(reason)` a run that passed its hard limit, after
    which the lane has no engine until `attach`.

    `apart(outputs, rows, deadline)` gives the judging of a run away where it is too dear for the loop, and
    None where it isn't; it raises Shed. With a `filler` requests of different lengths share a run."""

    def __init__(
        self,
        rules: LaneRules,
        judge: Callable[[dict[str, Array], int], Sequence[RowAnswer]],
        on_run: Callable[[Sequence[Work], int, int], None],
        on_overdue: Callable[[str], None],
        apart: Callable[[dict[str, Array], int, float], Judging | None] = lambda outputs, rows, deadline: (
            None
        ),
        filler: Filler | None = None,
    ) -> None:
        self.rules = rules
        self.queued_rows = 0
        self.run_s = 0.0
        """Recent mean length of a run, in seconds; 0 before the first."""
        self._judge = judge
        self._on_run = on_run
        self._on_overdue = on_overdue
        self._apart = apart
        self._filler = filler
        self._judging: dict[asyncio.Task[None], list[Work]] = {}
        self._engine: EngineClient | None = None
        self._order: deque[Work] = deque()
        self._keys: dict[Hashable, deque[Work]] = {}
        self._retries: deque[list[Work]] = deque()
        self._low: deque[Work] = deque()
        self._run: Run | None = None
        self._scheduled = False

    # ── What users of a lane do ──

    def put(self, work: Work, *, beyond_limits: bool = False) -> None:
        """Takes the work or raises Shed, decided now from what waits already."""
        if not beyond_limits:
            self._admit(work)
        self.queued_rows += work.rows
        work.ended = self._left
        self._order.append(work)
        self._keys.setdefault(work.key, deque()).append(work)
        self._wake()

    def put_low(self, work: Work) -> bool:
        """Work that runs only when nothing else waits. False when too much of it waits already."""
        now = time.monotonic()
        while self._low and not _is_wanted(self._low[0], now):
            self._low.popleft()
        if len(self._low) >= LOW_LIMIT:
            return False
        self._low.append(work)
        self._wake()
        return True

    @property
    def has_engine(self) -> bool:
        return self._engine is not None

    @property
    def running(self) -> Sequence[Work]:
        """In the engine, or behind it with a pipeline worker."""
        judged = [work for works in self._judging.values() for work in works]
        return [*(self._run.works if self._run else ()), *judged]

    @property
    def queued(self) -> list[Work]:
        """What waits, oldest first; low work is not counted."""
        waiting = [work for batch in self._retries for work in batch]
        waiting += [work for work in self._order if not work.taken]
        return [work for work in waiting if not work.done]

    def predicted_wait_s(self) -> float:
        """Until a work that came now would begin, by the recent length of runs."""
        runs = self.queued_rows // self.rules.max_rows if self.rules.together else len(self._order)
        wait = runs * self.run_s
        if self._run is not None:
            wait += max(0.0, self.run_s - (time.monotonic() - self._run.begun))
        return wait

    def attach(self, engine: EngineClient) -> None:
        self._engine = engine
        self._wake()

    def detach(self) -> None:
        """The engine is gone. What ran in it ends by its own EngineLost; what waits goes on waiting."""
        self._engine = None

    def leave(self, why: type[Rerouted] | type[Withdrawn]) -> None:
        """The arm lost its share: what waits here is told so, and low work is dropped."""
        for work in self.queued:
            if not work.pinned:
                work.fail(why())
        for work in self._low:
            work.fail(why())
        self._low.clear()

    def shut(self) -> None:
        """The arm is not held any more: nothing here will ever run."""
        for work in [*self.running, *self.queued, *self._low]:
            work.fail(Withdrawn())

    # ── Admission ──

    def _admit(self, work: Work) -> None:
        wait = self.predicted_wait_s()
        if self.queued_rows + work.rows > self.rules.queue_rows:
            raise Shed(
                f"{self.queued_rows} rows wait already and {self.rules.queue_rows} may",
                min(30.0, max(1.0, math.ceil(wait))),
            )
        left = work.deadline - work.arrived
        if wait > left:
            raise Shed(
                f"it would wait about {wait:.3f} s and has {left:.3f} s left", min(30.0, math.ceil(wait))
            )

    def _left(self, work: Work) -> None:
        if not work.taken:
            self.queued_rows -= work.rows
            work.taken = True
            work.inputs = {}

    # ── Forming ──

    def _wake(self) -> None:
        """At the end of this turn of the loop, so that all requests of one turn share a run."""
        if not self._scheduled and self._run is None and self._engine is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._scheduled = False
        while self._run is None and self._engine is not None:
            batch = self._form()
            if not batch:
                return
            self._start(self._engine, batch)

    def _form(self) -> list[Work]:
        now = time.monotonic()
        while self._retries:
            batch = [work for work in self._retries.popleft() if _is_wanted(work, now)]
            if batch:
                return batch
        while self._order:
            oldest = self._order.popleft()
            if not oldest.taken and _is_wanted(oldest, now):
                return self._fill(oldest, now)
            self._tidy(oldest.key)
        while self._low:
            low = self._low.popleft()
            if _is_wanted(low, now):
                return [low]
        return []

    def _fill(self, oldest: Work, now: float) -> list[Work]:
        batch = [oldest]
        self._take(oldest)
        same = self._keys[oldest.key]
        if self.rules.together:
            room = self.rules.max_rows - oldest.rows
            while same and room > 0:
                work = same[0]
                if not work.taken and _is_wanted(work, now):
                    if work.rows > room:
                        break
                    room -= work.rows
                    self._take(work)
                    batch.append(work)
                same.popleft()
        self._tidy(oldest.key)
        return batch

    def _tidy(self, key: Hashable) -> None:
        same = self._keys.get(key)
        if same is None:
            return
        while same and same[0].taken:
            same.popleft()
        if not same:
            del self._keys[key]

    def _take(self, work: Work) -> None:
        work.taken = True
        self.queued_rows -= work.rows

    # ── Running ──

    def _start(self, engine: EngineClient, works: list[Work]) -> None:
        rows = sum(work.rows for work in works)
        begun = time.monotonic()
        for work in works:
            work.started = begun
        limit = asyncio.get_running_loop().call_later(self.rules.run_limit_s, self._overdue)
        run = self._run = Run(engine, works, rows, begun, limit)
        try:
            reply = engine.submit(self._joined(works), max(work.deadline for work in works))
        except EngineLost:
            # Nothing of it was sent: it waits for the next engine.
            self._end(run)
            self._engine = None
            self._retries.appendleft(works)
            return
        except (EngineError, InputError) as error:
            self._end(run)
            self._failed(works, error)
            return
        reply.add_done_callback(lambda reply: self._ended(run, reply))

    def _ended(self, run: Run, reply: "asyncio.Future[EngineAnswer]") -> None:
        if self._run is not run:
            # The run passed its hard limit before: its works were answered then.
            reply.exception()
            return
        self._end(run)
        error = reply.exception()
        if isinstance(error, EngineLost) and self._engine is run.engine:
            self._engine = None
        if error is None:
            self._answered(run, reply.result())
        elif isinstance(error, EngineError | InputError):
            self._failed(run.works, error)
        else:
            raise error
        self._dispatch()

    def _end(self, run: Run) -> None:
        run.limit.cancel()
        self._run = None

    def _answered(self, run: Run, answer: EngineAnswer) -> None:
        took = time.monotonic() - run.begun
        self.run_s = took if not self.run_s else self.run_s + _RECENT * (took - self.run_s)
        outputs = answer.outputs
        if self.rules.rows_out and any(not a.ndim or a.shape[0] != run.rows for a in outputs.values()):
            shapes = {name: list(array.shape) for name, array in outputs.items()}
            self._split(run.works, IllegalAnswer(f"{run.rows} rows went in and {shapes} came out"))
            return
        self._on_run(run.works, run.rows, answer.engine_us)
        for works, own in pieces(run, outputs, self._filler):
            self._judged(Piece(works, own, run, answer.engine_us / 1e6))

    def _judged(self, piece: Piece) -> None:
        begun = time.monotonic()
        try:
            deadline = max(work.deadline for work in piece.works)
            judging = self._apart(piece.outputs, piece.rows, deadline)
            if judging is not None:
                task = asyncio.get_running_loop().create_task(self._judged_apart(piece, judging, begun))
                self._judging[task] = piece.works
                task.add_done_callback(self._judging.pop)
                return
            answers = self._judge(piece.outputs, piece.rows)
        except Fault as fault:
            self._not_judged(piece.works, fault)
            return
        piece.tell(answers, time.monotonic() - begun)

    async def _judged_apart(self, piece: Piece, judging: Judging, begun: float) -> None:
        try:
            answers = await judging.answer()
        except Fault as fault:
            self._not_judged(piece.works, fault)
            self._wake()
        else:
            piece.tell(answers, time.monotonic() - begun)

    def _not_judged(self, works: list[Work], fault: Fault) -> None:
        """Only what can lie in one row is tried again by halves."""
        if isinstance(fault, IllegalAnswer | PipelineFault):
            self._split(works, fault)
            return
        for work in works:
            work.fail(fault)

    def _failed(self, works: list[Work], error: EngineError | InputError) -> None:
        if isinstance(error, EngineLost):
            self._lost(works, str(error))
        elif isinstance(error, EngineFailed) and error.kind == "expired":
            for work in works:
                work.fail(TimedOut("queue"))
        elif isinstance(error, InputError):
            self._split(works, error)
        else:
            self._split(works, RunFault(str(error)))

    def _lost(self, works: list[Work], reason: str) -> None:
        """Inference has no effects, so each work runs again when an engine is back, alone: the one that
        kills engines must not take its neighbours along twice."""
        again: list[Work] = []
        for work in works:
            work.losses += 1
            if work.losses > LOSSES_ALLOWED:
                work.fail(RunFault(f"the engine process was lost twice with this request inside: {reason}"))
            else:
                work.started = 0.0
                again.append(work)
        self._retries.extendleft([work] for work in reversed(again))

    def _joined(self, works: list[Work]) -> dict[str, Array]:
        inputs = [work.inputs for work in works]
        if self._filler is not None and len(works) > 1:
            return self._filler.join(inputs)
        return concat(inputs)

    def _split(self, works: list[Work], fault: Exception) -> None:
        if len(works) == 1:
            works[0].fail(fault)
            return
        middle = len(works) // 2
        self._retries.appendleft(works[middle:])
        self._retries.appendleft(works[:middle])

    def _overdue(self) -> None:
        run = self._run
        if run is None:
            return
        self._run = None
        self._engine = None
        for work in run.works:
            work.fail(TimedOut("engine"))
        self._on_overdue(f"a run of {run.rows} rows took longer than {self.rules.run_limit_s:g} s")


def _is_wanted(work: Work, now: float) -> bool:
    """False for work whose caller left or whose deadline is over; the latter is told so here."""
    if work.done:
        return False
    if now >= work.deadline:
        work.expire()
        return False
    return True
