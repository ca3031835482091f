"""What pre-processing makes of one raw input, and what it costs."""

from dataclasses import dataclass
from enum import Enum

from serving.runtimes.protocol import Array


class Cost(Enum):
    """Where a step may run. INLINE: at most about 0.2 ms, so on an event loop; WORKER: in a process of its
    own, since it would hold everybody else's requests."""

    INLINE = "inline"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an image lies in the engine's input, to bring boxes back.

    The sent image has `width` × `height` pixels (after turning); in the input, of `input_width` ×
    `input_height`, its corner is at (`left`, `top`) and one of its pixels takes `scale_x` × `scale_y`.
    """

    width: int
    height: int
    input_width: int
    input_height: int
    scale_x: float = 1.0
    scale_y: float = 1.0
    left: float = 0.0
    top: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """`tensors` of one raw input, batch axis first; `place` where it was an image."""

    tensors: dict[str, Array]
    place: Place | None = None
