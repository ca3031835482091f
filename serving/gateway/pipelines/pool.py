"""The pipeline workers of one version in one gateway worker, and what waits for them.

A worker has one question at a time. One that dies takes its question along once: it is asked again, and fails
when it kills a second worker. One that hangs is killed after the limit, and its question fails: it would hang
again. What waits meanwhile waits on, for the replacement.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from serving.engine.frames import Frame, Received
from serving.gateway.faults import PipelineFault, Shed, TimedOut
from serving.gateway.pipelines.messages import (
    Order,
    answers_of,
    ask_judge,
    ask_prepare,
    prepared_of,
)
from serving.gateway.pipelines.process import WorkerLost, WorkerProcess, WorkerUnfit
from serving.pipeline.answers import RowAnswer
from serving.pipeline.prepared import Prepared
from serving.runtimes.protocol import Tensors

LOSSES_ALLOWED = 1
UNFIT_S = 5.0
STARTS = 3
"""A process that ends while it starts gets so many tries before requests fail by it."""
RESTART_S = 0.2
_RECENT = 0.2

T = TypeVar("T")

log = logging.getLogger("slipway.gateway")


class Asked(Generic[T]):
    """A question's answer, for whoever waits. `fail` ends the waiting."""

    def __init__(self, question: "Question", read: Callable[[Received], T]) -> None:
        self._question = question
        self._read = read

    def fail(self, fault: Exception) -> None:
        self._question.fail(fault)

    async def answer(self) -> T:
        question = self._question
        try:
            async with asyncio.timeout(max(0.0, question.deadline - time.monotonic())):
                received = await question.reply
        except TimeoutError as error:
            raise TimedOut(question.layer) from error
        return self._read(received)


class Question:
    """What waits for a worker, or is with one. `fail` ends it for whoever waits, not in the worker."""

    __slots__ = ("deadline", "frame", "layer", "losses", "reply")

    def __init__(self, frame: Callable[[], Frame], deadline: float, layer: Literal["pre", "post"]) -> None:
        self.frame = frame
        self.deadline = deadline
        self.layer = layer
        self.losses = 0
        self.reply: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

    def fail(self, fault: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(fault)
            self.reply.exception()  # seen: perhaps nobody waits any more

    def succeed(self, received: Received) -> None:
        if not self.reply.done():
            self.reply.set_result(received)


class Pool:
    """`size` workers, started by `start` or by the first question. `limit_s`: how long one may take.
    `room`: questions that may wait."""

    def __init__(self, order: Order, size: int, limit_s: float, room: int) -> None:
        self._order = order
        self._size = size
        self._limit_s = limit_s
        self._room = room
        self._waiting: deque[Question] = deque()
        self._came = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._took_s = 0.0
        self.pids: set[int] = set()
        """Of the workers that are ready."""
        self.trouble = ""
        """Why none can be started, empty while all is well."""

    def start(self) -> None:
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._serve()) for _ in range(self._size)]

    def close(self) -> None:
        """Workers are killed, and whoever waits is told so."""
        for task in self._tasks:
            task.cancel()
            self._end(task)
        self._tasks.clear()
        for question in self._waiting:
            question.fail(PipelineFault("the arm was taken off this node"))
        self._waiting.clear()

    async def wait_closed(self) -> None:
        """After `close`: until all of its processes are gone."""
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)

    def prepare(self, raw: bytes, deadline: float) -> Asked[Prepared]:
        """Raises Shed. The answer raises InputError, PipelineFault, TimedOut."""
        return Asked(self._put(Question(lambda: ask_prepare(raw), deadline, "pre")), prepared_of)

    def judge(self, outputs: Tensors, rows: int, deadline: float) -> Asked[list[RowAnswer]]:
        """Raises Shed. The answer raises IllegalAnswer, PipelineFault, TimedOut."""
        return Asked(self._put(Question(lambda: ask_judge(outputs, rows), deadline, "post")), answers_of)

    def _put(self, question: Question) -> Question:
        wait = len(self._waiting) * self._took_s / self._size
        if len(self._waiting) >= self._room or wait > question.deadline - time.monotonic():
            raise Shed(
                f"{len(self._waiting)} requests wait for the pipeline already, for about {wait:.3f} s",
                min(30.0, max(1.0, math.ceil(wait))),
            )
        self.start()
        self._waiting.append(question)
        self._came.set()
        return question

    async def _next(self) -> Question:
        """The oldest question that somebody still waits for in time."""
        while True:
            while self._waiting:
                question = self._waiting.popleft()
                if question.reply.done():
                    continue
                if time.monotonic() < question.deadline:
                    return question
                question.fail(TimedOut(question.layer))
            self._came.clear()
            await self._came.wait()

    async def _serve(self) -> None:
        """One place of the pool: a worker, and the next one when it is lost."""
        worker: WorkerProcess | None = None
        question: Question | None = None
        try:
            while True:
                if worker is None:
                    worker = await self._started()
                question = await self._next()
                kept = await self._ask(worker, question)
                question = None
                if not kept:
                    self._drop(worker)
                    worker = None
        finally:
            if question is not None:
                question.fail(PipelineFault("the arm was taken off this node"))
            if worker is not None:
                self._drop(worker)

    async def _started(self) -> WorkerProcess:
        failures = 0
        while True:
            try:
                worker = await WorkerProcess.start(self._order)
            except WorkerUnfit as error:
                await self._unfit(str(error))
            except (WorkerLost, OSError) as error:
                failures += 1
                if failures < STARTS:
                    await asyncio.sleep(RESTART_S * failures)
                    continue
                await self._unfit(f"no pipeline worker could be started: {error}")
                failures = 0
            else:
                self.pids.add(worker.pid)
                self.trouble = ""
                return worker

    async def _unfit(self, reason: str) -> None:
        """Nothing can be answered: say so to all who wait and come, and try again after a while."""
        log.error("pipeline: %s", reason)
        self.trouble = reason
        until = time.monotonic() + UNFIT_S
        while (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    (await self._next()).fail(PipelineFault(reason))
            except TimeoutError:
                return

    async def _ask(self, worker: WorkerProcess, question: Question) -> bool:
        """False when the worker is of no more use."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._limit_s):
                received = await worker.ask(question.frame())
        except TimeoutError:
            log.error("pipeline worker %d took longer than %g s: replaced", worker.pid, self._limit_s)
            question.fail(
                PipelineFault(f"this request's pipeline took longer than {self._limit_s:g} s and was stopped")
            )
            return False
        except WorkerLost as lost:
            log.error("pipeline worker %d: %s: replaced", worker.pid, lost)
            question.losses += 1
            if question.losses > LOSSES_ALLOWED:
                question.fail(PipelineFault(f"a pipeline worker was lost twice with this request: {lost}"))
            else:
                self._waiting.appendleft(question)
                self._came.set()
            return False
        took = time.monotonic() - begun
        self._took_s = took if not self._took_s else self._took_s + _RECENT * (took - self._took_s)
        question.succeed(received)
        return True

    def _drop(self, worker: WorkerProcess) -> None:
        self.pids.discard(worker.pid)
        worker.kill()
        self._end(asyncio.get_running_loop().create_task(worker.gone()))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
