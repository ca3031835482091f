"""How the work of one request may end badly inside a node. Each is told to the caller by `refusals`."""

from typing import Literal

Layer = Literal["access", "pre", "queue", "engine", "post"]


class Fault(Exception):
    """Base of the errors below."""


class TimedOut(Fault):
    """The request's deadline passed in this layer."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        super().__init__(f"the deadline passed in the layer {layer!r}")


class Shed(Fault):
    """Not taken: there is no room, or it would wait longer than it has time."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class RunFault(Fault):
    """The engine failed on this request alone, or was lost twice with it inside."""


class IllegalAnswer(Fault):
    """The engine answered what its contract forbids: wrong rows, NaN, a field that can't be counted."""


class PipelineFault(Fault):
    """The version's pre- or post-processing failed, or its worker was lost or stopped."""


class Rerouted(Fault):
    """A new generation took the arm's share while this request waited: ask the new route."""


class Withdrawn(Fault):
    """The arm's engine went away while this request waited, and the route is still the same."""


class Cut(Fault):
    """The arm lost its share and the drain limit is over while this request ran."""


class CallerGone(Fault):
    """The connection was closed before the answer."""


class Loading(Fault):
    """Nothing can answer for this deployment yet."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(reason)
