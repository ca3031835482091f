"""One arm answers one request: pre-processing, its queue and engine, post-processing with legality check."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from serving.gateway import oip
from serving.gateway.book import Ticket
from serving.gateway.call import Call
from serving.gateway.deadlines import DeadlineSweep
from serving.gateway.exchange import JSON, Response
from serving.gateway.faults import CallerGone, IllegalAnswer, TimedOut
from serving.gateway.refusals import Refusal
from serving.gateway.table import Arm
from serving.gateway.work import Ran, Work
from serving.pipeline import errors as pipeline_errors
from serving.pipeline.answers import Answer, RowAnswer
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.telemetry.observables import Sight

EXAMPLE_LIMIT_BYTES = 1 << 20


@dataclass(slots=True)
class Answered:
    """`sights` has one entry per row, or none where nothing is watched."""

    response: Response
    sights: tuple[Sight, ...]
    rows: int


async def attempt(call: Call, arm: Arm, ticket: Ticket, sweep: DeadlineSweep) -> Answered:
    """Raises Fault, Refusal and InputError."""
    begun = time.perf_counter()
    request, inputs, rows = _read(call, arm)
    read = time.perf_counter()
    call.layers.pre = read - begun
    if call.gone:
        raise CallerGone
    if call.time_left <= 0:
        raise TimedOut("pre")
    work = Work(inputs, rows, arm.slot.plan.key(inputs), call.deadline, owner=ticket, pinned=call.explicit)
    ran = await run(call, arm, work, sweep)
    call.layers.queue = ran.queue_s
    call.layers.engine = ran.engine_s
    ended = time.perf_counter()
    sights = see(arm, ran)
    if request is not None:
        response = oip.encode(request, ran.outputs, call.model, arm.version_tail, call.request_id)
    else:
        response = _answer(call, arm, ran)
    if rows == 1 and sum(array.nbytes for array in inputs.values()) <= EXAMPLE_LIMIT_BYTES:
        arm.slot.example = inputs
    call.layers.post = ran.post_s + time.perf_counter() - ended
    return Answered(response, sights, rows)


async def run(call: Call, arm: Arm, work: Work, sweep: DeadlineSweep) -> Ran:
    """Through the arm's queue and engine."""
    arm.slot.lane.put(work, beyond_limits=call.moved)
    sweep.watch(work)
    call.work = work
    try:
        return await work.answer()
    finally:
        call.work = None
        sweep.forget(work)


def see(arm: Arm, ran: Ran) -> tuple[Sight, ...]:
    """What is counted of the answers. Raises IllegalAnswer for what can't be."""
    try:
        return arm.watcher.see(_legal(ran.answers))
    except pipeline_errors.PipelineMismatch as error:
        raise IllegalAnswer(str(error)) from error


def _legal(answers: Sequence[RowAnswer]) -> list[Answer]:
    """The lane has failed every work with an illegal row already."""
    return [answer for answer in answers if not isinstance(answer, pipeline_errors.IllegalAnswer)]


def _read(call: Call, arm: Arm) -> tuple[oip.InferRequest | None, dict[str, Array], int]:
    plan = arm.slot.plan
    if call.raw:
        inputs = plan.pre(call.body)
        return None, inputs, 1
    length = call.head.headers.get(oip.HEADER_LENGTH)
    request = oip.decode(call.body, length, plan.signature)
    if request.rows > plan.max_rows:
        raise InputError(
            "batch",
            wanted=f"at most {plan.max_rows} rows",
            got=f"{request.rows} rows",
            mend="send them in several requests",
        )
    return request, request.inputs, request.rows


def _answer(call: Call, arm: Arm, ran: Ran) -> Response:
    """Answers that nobody watches are made here."""
    answers = ran.answers
    if not answers:
        try:
            answers = arm.slot.plan.post.rows(ran.outputs, 1)
        except pipeline_errors.IllegalAnswer as error:
            raise IllegalAnswer(str(error)) from error
    answer = answers[0]
    if isinstance(answer, pipeline_errors.IllegalAnswer):
        raise IllegalAnswer(answer.reason)
    document = {
        "model_name": call.model,
        "model_version": arm.version_tail,
        "id": call.request_id,
        "answer": answer,
    }
    return Response(200, orjson.dumps(document), JSON)


def check_encoding(call: Call) -> None:
    """Compressed bodies are refused: a small one may unpack to any size."""
    encoding = call.head.headers.get(b"content-encoding")
    if encoding not in (None, b"identity"):
        raise Refusal(415, "compressed bodies are not taken", "send the body without content-encoding")
