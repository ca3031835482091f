"""One arm answers one request: pre-processing, its queue and engine, post-processing with legality check."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from serving.gateway import oip
from serving.gateway.book import Ticket
from serving.gateway.call import Call
from serving.gateway.deadlines import DeadlineSweep
from serving.gateway.exchange import JSON, Response
from serving.gateway.faults import CallerGone, IllegalAnswer, TimedOut
from serving.gateway.plan import Plan
from serving.gateway.refusals import Refusal
from serving.gateway.table import Arm
from serving.gateway.work import Ran, Work
from serving.pipeline import errors as pipeline_errors
from serving.pipeline.answers import Answer, RowAnswer
from serving.pipeline.inputs import rows_of
from serving.pipeline.prepared import Place, Prepared
from serving.pipeline.processing import located
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Array
from serving.telemetry.observables import Sight


@dataclass(slots=True)
class Answered:
    """`sights` has one entry per row, or none where nothing is watched."""

    response: Response
    sights: tuple[Sight, ...]
    rows: int


async def attempt(call: Call, arm: Arm, ticket: Ticket, sweep: DeadlineSweep) -> Answered:
    """Raises Fault, Refusal and InputError."""
    begun = time.perf_counter()
    slot = arm.slot
    request: oip.InferRequest | None = None
    place: Place | None = None
    if call.raw:
        prepared = await _prepare(call, arm)
        inputs, place = prepared.tensors, prepared.place
        rows = rows_of(inputs)
    else:
        request = _read(call, slot.plan)
        inputs, rows = request.inputs, request.rows
    _check_rows(rows, slot.plan.max_rows)
    layers = call.layers
    layers.pre = time.perf_counter() - begun
    if call.gone:
        raise CallerGone
    if call.time_left <= 0:
        raise TimedOut("pre")
    work = Work(inputs, rows, slot.plan.key(inputs), call.deadline, owner=ticket, pinned=call.explicit)
    try:
        ran = await _run(call, arm, work, sweep)
        layers.queue, layers.engine = ran.queue_s, ran.engine_s
        ended = time.perf_counter()
        sights = see(arm, ran)
        if request is not None:
            response = oip.encode(request, ran.outputs, call.model, arm.version_tail, call.request_id)
        else:
            response = await _answer(call, arm, ran, place)
    except IllegalAnswer as error:
        _blame_infinity(inputs, error)
        raise
    if rows == 1:
        slot.remember(inputs)
    layers.post = ran.post_s + time.perf_counter() - ended
    return Answered(response, sights, rows)


def _blame_infinity(inputs: Mapping[str, Array], error: IllegalAnswer) -> None:
    """Infinity may be a good input (a mask), so it is let in; where no legal answer comes of it, that is the
    request's fault. Raises InputError."""
    for name, array in inputs.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(
                f"values of input {name!r}",
                wanted="numbers from which a legal answer follows",
                got=f"Infinity; {error}",
                mend="send finite numbers, as in training",
            ) from error


async def _run(call: Call, arm: Arm, work: Work, sweep: DeadlineSweep) -> Ran:
    """Through the arm's queue and engine."""
    arm.slot.lane.put(work, beyond_limits=call.moved)
    sweep.watch(work)
    call.work = work
    try:
        return await work.reply
    finally:
        call.work = None
        sweep.forget(work)
        work.let_go()


def see(arm: Arm, ran: Ran) -> tuple[Sight, ...]:
    """What is counted of the answers. Raises IllegalAnswer for what can't be."""
    try:
        return arm.watcher.see(_legal(ran.answers))
    except pipeline_errors.PipelineMismatch as error:
        raise IllegalAnswer(str(error)) from error


def _legal(answers: Sequence[RowAnswer]) -> list[Answer]:
    """The lane has failed every work with an illegal row already."""
    return [answer for answer in answers if not isinstance(answer, pipeline_errors.IllegalAnswer)]


def _read(call: Call, plan: Plan) -> oip.InferRequest:
    """The tensors that the caller sent."""
    try:
        return plan.decode(call.body, call.head.headers.get(oip.HEADER_LENGTH))
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Whatever it is that this request made of the reading, it says nothing about the arm: as the arm's
        # error it would let any client take a release back.
        raise Refusal(
            400, f"the request can't be read: {error}", "send tensors as the model's metadata names them"
        ) from error


async def _prepare(call: Call, arm: Arm) -> Prepared:
    """On the loop when it is cheap, else by a pipeline worker; who leaves meanwhile takes it back."""
    asked = arm.slot.ask_prepare(call.body, call.deadline)
    if asked is None:
        return arm.slot.prepare_here(call.body)
    call.work = asked
    try:
        return await asked.answer()
    finally:
        call.work = None


def _check_rows(rows: int, most: int) -> None:
    if rows > most:
        raise InputError(
            "batch",
            wanted=f"at most {most} rows",
            got=f"{rows} rows",
            mend="send them in several requests",
        )


async def _answer(call: Call, arm: Arm, ran: Ran, place: Place | None) -> Response:
    """Answers that nobody watches are made here. A list where the pipeline may make several rows of one raw
    input."""
    answers = ran.answers
    plan = arm.slot.plan
    if not answers:
        answers = await arm.slot.answers(ran.outputs, ran.rows, call.deadline)
    found: list[Answer] = []
    for answer in answers:
        if isinstance(answer, pipeline_errors.IllegalAnswer):
            raise IllegalAnswer(answer.reason)
        found.append(located(plan.contract.pipeline, answer, place))
    document = {
        "model_name": call.model,
        "model_version": arm.version_tail,
        "id": call.request_id,
        **({"answers": found} if plan.many else {"answer": found[0]}),
    }
    return Response(200, orjson.dumps(document), JSON)


def check_encoding(call: Call) -> None:
    """Compressed bodies are refused: a small one may unpack to any size."""
    encoding = call.head.headers.get(b"content-encoding")
    if encoding not in (None, b"identity"):
        raise Refusal(415, "compressed bodies are not taken", "send the body without content-encoding")
