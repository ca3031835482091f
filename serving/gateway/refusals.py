"""Errors as problem documents: what is wrong, with what, and how to mend it."""

import math

import orjson

from registry.contract.problems import FieldError, Problem, ProblemType
from serving.gateway.exchange import PROBLEM, Response
from serving.gateway.faults import (
    CallerGone,
    Cut,
    Fault,
    IllegalAnswer,
    Loading,
    PipelineFault,
    Rerouted,
    RunFault,
    Shed,
    TimedOut,
    Withdrawn,
)
from serving.runtimes.errors import InputError

_TITLES = {
    400: "The request can't be read",
    404: "Not served here",
    405: "Method not allowed",
    413: "Too large",
    415: "Unsupported media type",
    422: "The input doesn't fit the model",
    431: "The head is too large",
    408: "The request came too slowly",
    500: "The model failed on this request",
    503: "Not now",
    504: "The deadline passed",
}
_TYPES = {
    404: ProblemType.NOT_FOUND,
    405: ProblemType.METHOD_NOT_ALLOWED,
    413: ProblemType.TOO_LARGE,
    415: ProblemType.UNSUPPORTED_MEDIA_TYPE,
    500: ProblemType.INTERNAL,
    503: ProblemType.UNAVAILABLE,
    504: ProblemType.UNAVAILABLE,
}


class Refusal(Exception):
    """A request that is answered with a problem document before any work was given to an arm."""

    def __init__(self, status: int, detail: str, hint: str, errors: tuple[FieldError, ...] = ()) -> None:
        self.status = status
        self.detail = detail
        self.hint = hint
        self.errors = errors
        super().__init__(detail)


def problem(
    status: int,
    detail: str,
    hint: str,
    request_id: str | None = None,
    errors: tuple[FieldError, ...] = (),
    layer: str | None = None,
) -> Response:
    """`layer` names the part of the way in which a deadline passed."""
    kind = _TYPES.get(status, ProblemType.INVALID)
    document = Problem(
        type=f"/problems/{kind.value}",
        title=_TITLES[status],
        status=status,
        detail=detail,
        hint=hint,
        request_id=request_id,
        errors=errors,
    ).model_dump(mode="json", exclude_defaults=True)
    if layer is not None:
        document["layer"] = layer
    return Response(status, orjson.dumps(document), PROBLEM)


def of_refusal(refusal: Refusal, request_id: str | None) -> Response:
    return problem(refusal.status, refusal.detail, refusal.hint, request_id, refusal.errors)


def of_input(error: InputError, request_id: str | None) -> Response:
    """422 with what was wanted and what came."""
    return problem(
        422,
        f"{error.what}: wanted {error.wanted}, got {error.got}",
        error.mend,
        request_id,
        (FieldError(where=error.what, what=f"wanted {error.wanted}, got {error.got}"),),
    )


def of_fault(fault: Fault, request_id: str | None) -> Response:
    match fault:
        case TimedOut(layer=layer):
            hint = "give more time in x-request-timeout-ms, or send fewer requests at once"
            return problem(504, f"no answer in time; {fault}", hint, request_id, layer=layer)
        case Shed(retry_after_s=wait) | Loading(retry_after_s=wait):
            response = problem(503, str(fault), "try again after Retry-After seconds", request_id)
            response.headers.append((b"retry-after", b"%d" % max(1, math.ceil(wait))))
            return response
        case Cut():
            hint = "try again: the route was changed while this request ran"
            return problem(504, "the arm was taken out of service", hint, request_id, layer="engine")
        case RunFault():
            hint = "the input has the right form and the engine fails on it: tell the model's owner"
            return problem(500, str(fault), hint, request_id)
        case IllegalAnswer():
            hint = "the model gave an answer that its contract forbids: tell the model's owner"
            return problem(500, str(fault), hint, request_id)
        case PipelineFault():
            hint = "the version's pipeline fails on this request: tell the model's owner"
            return problem(500, str(fault), hint, request_id)
        case Rerouted() | Withdrawn() | CallerGone():
            return problem(503, "the request was not answered", "try again", request_id)
        case _:
            raise AssertionError(f"{type(fault).__name__} has no answer")


def unforeseen(error: Exception, request_id: str | None) -> Response:
    """For what nothing in the gateway expects."""
    return problem(
        500,
        f"processing failed: {type(error).__name__}: {error}",
        "this is a fault of the service or of the version's pipeline: report it with the request id",
        request_id,
    )
