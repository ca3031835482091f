"""What a reply frame means to the client that gets it."""

from dataclasses import dataclass

from serving.engine.errors import EngineFailed, FrameError
from serving.engine.frames import FrameKind, Received, tensors_of
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """`engine_us`: microseconds that the engine itself ran."""

    outputs: dict[str, Array]
    engine_us: int


def result_of(frame: Received) -> object:
    """The value of a good reply. Raises the error of a failed one, and FrameError for no reply at all."""
    if frame.kind is FrameKind.ANSWER:
        return EngineAnswer(tensors_of(frame), frame.number)
    if frame.kind is FrameKind.REPORT:
        return frame.body
    if frame.kind is FrameKind.FAILED:
        raise _error_of(frame.body)
    raise FrameError(f"{frame.kind.name} is no answer")


def _error_of(body: object) -> InputError | EngineFailed:
    if not isinstance(body, dict):
        raise FrameError("a failure without its facts")
    facts = {str(key): str(value) for key, value in body.items()}
    if facts.get("kind") == InputError.kind:
        return InputError(
            facts.get("what", ""),
            wanted=facts.get("wanted", ""),
            got=facts.get("got", ""),
            mend=facts.get("mend", ""),
        )
    return EngineFailed(facts.get("kind", "internal"), facts.get("message", "no reason given"))
