"""What a gateway and its pipeline workers tell each other, in the frames of engine processes.

A question is an INFER frame. Its number is the rows of outputs to be judged, or 0: its one tensor is a raw
input to be prepared. An ANSWER holds the tensors and the place, or the answers as JSON; a FAILED what went
wrong. The worker says REPORT once it is ready.
"""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import orjson

from registry.contract.versions import VersionContract
from registry.contract.wire import Wire
from serving.engine.errors import FrameError
from serving.engine.frames import Frame, FrameKind, Received, plain_frame, tensor_frame, tensors_of
from serving.gateway import faults
from serving.pipeline.answers import RowAnswer
from serving.pipeline.errors import IllegalAnswer
from serving.pipeline.prepared import Place, Prepared
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array, Tensors

RAW = "raw"
ANSWERS = "answers"
# No tensor of a model can have this name: a signature's names have at least one character.
PLACE = ""
_LONGEST_TEXT = 4000


class Order(Wire):
    """Given to a worker on its standard input. `files`: path in the version → where its bytes lie."""

    contract: VersionContract
    files: dict[str, Path]


def ask_prepare(raw: bytes) -> Frame:
    return tensor_frame(FrameKind.INFER, 1, 0, {RAW: np.frombuffer(raw, dtype=np.uint8)})


def ask_judge(outputs: Tensors, rows: int) -> Frame:
    return tensor_frame(FrameKind.INFER, 1, rows, outputs)


def tell_prepared(prepared: Prepared) -> Frame:
    tensors = dict(prepared.tensors)
    if prepared.place is not None:
        tensors[PLACE] = np.asarray(astuple(prepared.place), dtype=np.float64)
    return tensor_frame(FrameKind.ANSWER, 1, 0, tensors)


def tell_answers(answers: Sequence[RowAnswer]) -> Frame:
    plain = [one.reason if isinstance(one, IllegalAnswer) else one for one in answers]
    return tensor_frame(FrameKind.ANSWER, 1, 0, {ANSWERS: np.frombuffer(orjson.dumps(plain), dtype=np.uint8)})


def tell_failure(error: Exception) -> Frame:
    if isinstance(error, InputError):
        body = {"what": error.what, "wanted": error.wanted, "got": error.got, "mend": error.mend}
        return plain_frame(
            FrameKind.FAILED, 1, body={"input": {k: v[:_LONGEST_TEXT] for k, v in body.items()}}
        )
    if isinstance(error, IllegalAnswer):
        return plain_frame(FrameKind.FAILED, 1, body={"illegal": str(error)[:_LONGEST_TEXT]})
    text = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
    return plain_frame(FrameKind.FAILED, 1, body={"failed": text})


def prepared_of(received: Received) -> Prepared:
    """Raises InputError, PipelineFault."""
    tensors = _tensors(received)
    found = tensors.pop(PLACE, None)
    return Prepared(tensors, None if found is None else _place(found))


def answers_of(received: Received) -> list[RowAnswer]:
    """Raises IllegalAnswer and PipelineFault of the gateway."""
    plain = orjson.loads(_tensors(received)[ANSWERS].tobytes())
    return [IllegalAnswer(one, row) if isinstance(one, str) else one for row, one in enumerate(plain)]


def _tensors(received: Received) -> dict[str, Array]:
    if received.kind is FrameKind.ANSWER:
        return tensors_of(received)
    if received.kind is not FrameKind.FAILED:
        raise FrameError(f"{received.kind.name} is no answer of a pipeline worker")
    body = received.body
    if "input" in body:
        found = body["input"]
        raise InputError(found["what"], wanted=found["wanted"], got=found["got"], mend=found["mend"])
    if "illegal" in body:
        raise faults.IllegalAnswer(body["illegal"])
    raise faults.PipelineFault(f"the pipeline failed: {body['failed']}")


def _place(found: Array) -> Place:
    width, height, input_width, input_height, scale_x, scale_y, left, top = (float(one) for one in found)
    return Place(int(width), int(height), int(input_width), int(input_height), scale_x, scale_y, left, top)
