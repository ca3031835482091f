"""One inference request on its way through the node."""

import time
from dataclasses import dataclass, field
from typing import Protocol

from registry.contract.counters import Outcome
from serving.gateway.exchange import Head
from serving.gateway.faults import CallerGone


@dataclass(slots=True)
class Layers:
    """Seconds in each layer, of the attempt that was answered."""

    access: float = 0.0
    pre: float = 0.0
    queue: float = 0.0
    engine: float = 0.0
    post: float = 0.0

    def header(self) -> bytes:
        """The value of server-timing, in milliseconds."""
        return b"access;dur=%.3f, pre;dur=%.3f, queue;dur=%.3f, engine;dur=%.3f, post;dur=%.3f" % (
            self.access * 1e3,
            self.pre * 1e3,
            self.queue * 1e3,
            self.engine * 1e3,
            self.post * 1e3,
        )


class Ending(Protocol):
    def fail(self, fault: Exception) -> None:
        """Ends the waiting for it; later answers are dropped."""


@dataclass(slots=True)
class Call:
    """`raw`: the body is a raw input for `predict`, else an inference request of the protocol.

    `version`: named by the caller in path or header. `deadline` on time.monotonic().
    """

    head: Head
    body: bytes
    request_id: str
    model: str
    version: str | None
    raw: bool
    deadline: float = 0.0
    layers: Layers = field(default_factory=Layers)
    work: Ending | None = None
    """What is under way for it, in a lane or with a pipeline worker."""
    gone: bool = False
    moved: bool = False
    """It was taken once already: it is not shed when a swap gives it to another arm."""
    outcome: Outcome = Outcome.PIPELINE_ERROR
    fallback: str = ""
    """Why the assigned arm didn't answer, where another one did."""

    @property
    def explicit(self) -> bool:
        return self.version is not None

    @property
    def time_left(self) -> float:
        return self.deadline - time.monotonic()

    def leave(self) -> None:
        """The caller closed the connection: what waits for an engine is taken back."""
        self.gone = True
        if self.work is not None:
            self.work.fail(CallerGone())
