"""One request's work for one engine: what waits in a lane, runs there, and is answered once."""

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from serving.gateway.faults import TimedOut
from serving.pipeline.answers import RowAnswer
from serving.runtimes.protocol import Array

LOSSES_ALLOWED = 1


@dataclass(slots=True)
class Ran:
    """`rows`, `outputs` and `answers` are this work's own; no answers where none are wanted. Seconds in the
    queue, in the engine and in the run's post-processing; rows of the whole run."""

    rows: int
    outputs: dict[str, Array]
    answers: Sequence[RowAnswer]
    queue_s: float
    engine_s: float
    post_s: float
    batch_rows: int


class Work:
    """`inputs` share one row count. Two works run together only when their keys are equal.

    `pinned` work stays when its arm loses its share. `owner` is for the lane's user and not read here.
    """

    __slots__ = (
        "arrived",
        "deadline",
        "ended",
        "inputs",
        "key",
        "losses",
        "owner",
        "pinned",
        "reply",
        "rows",
        "started",
        "taken",
    )

    def __init__(
        self,
        inputs: dict[str, Array],
        rows: int,
        key: Hashable,
        deadline: float,
        *,
        owner: object = None,
        pinned: bool = False,
    ) -> None:
        self.inputs = inputs
        self.rows = rows
        self.key = key
        self.deadline = deadline
        self.owner = owner
        self.pinned = pinned
        self.reply: asyncio.Future[Ran] = asyncio.get_running_loop().create_future()
        self.arrived = time.monotonic()
        self.started = 0.0
        self.taken = False
        self.losses = 0
        self.ended: Callable[[Work], None] | None = None
        """Called once when the reply is known: by the lane, to give back the room of what still waits."""

    @property
    def done(self) -> bool:
        return self.reply.done()

    def succeed(self, ran: Ran) -> None:
        if not self.reply.done():
            self.reply.set_result(ran)
            self.let_go()

    def fail(self, fault: Exception) -> None:
        """Answers with an error; what comes later for this work is dropped."""
        if not self.reply.done():
            self.reply.set_exception(fault)
            self.let_go()

    def expire(self) -> None:
        self.fail(TimedOut("engine" if self.started else "queue"))

    async def answer(self) -> Ran:
        """Raises Fault, or InputError where the engine refuses the tensors."""
        try:
            return await self.reply
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Whoever awaited `reply` waits no more. A waiter that was cancelled is why it has to be said: the
        room in the queue must not stay taken."""
        ended, self.ended = self.ended, None
        if ended is not None:
            ended(self)
