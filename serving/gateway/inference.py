"""From an inference request to its one answer and its one counted outcome.

The arm is assigned once. What waits when a new generation takes the arm's share is assigned anew and counts
there only. Where an arm on trial fails, stable answers in its place while there is time: marked in the
response, and counted as `fallback`, which is an error of the arm that was assigned.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from registry.contract.counters import Outcome
from serving.gateway.attempt import Answered, attempt, check_encoding
from serving.gateway.book import Ticket
from serving.gateway.call import Call
from serving.gateway.deadlines import HEADER as TIMEOUT_HEADER
from serving.gateway.deadlines import DeadlineSweep, time_allowed
from serving.gateway.exchange import Response
from serving.gateway.faults import (
    CallerGone,
    Cut,
    Fault,
    IllegalAnswer,
    Loading,
    PipelineFault,
    Rerouted,
    RunFault,
    TimedOut,
)
from serving.gateway.refusals import Refusal, of_fault, of_input, of_refusal, unforeseen
from serving.gateway.settings import GatewaySettings
from serving.gateway.table import Arm, Deployment, Routing
from serving.runtimes.errors import InputError

FALLBACK_HEADER = b"x-slipway-fallback"


class Finished(Protocol):
    """Told of each request once it is counted, before its response is written."""

    def __call__(
        self, call: Call, deployment: Deployment, arm: Arm, answered: Answered | None, total_us: float
    ) -> None: ...


class Inference:
    """`routing` gives the routing state of the moment; `finished` is told of every request of an arm."""

    def __init__(
        self,
        routing: Callable[[], Routing],
        settings: GatewaySettings,
        sweep: DeadlineSweep,
        finished: Finished,
    ) -> None:
        self._routing = routing
        self._settings = settings
        self._sweep = sweep
        self._finished = finished

    async def __call__(self, call: Call) -> Response:
        """Every error is a response; only cancellation comes out."""
        admitted = self._admit(call)
        if isinstance(admitted, Response):
            return admitted
        deployment, arm = admitted
        call.layers.access = time.perf_counter() - call.head.started
        ticket = Ticket(arm.book, call.explicit)
        if call.head.connection is not None:
            call.head.connection.on_lost = call.leave
        answered: Answered | None = None
        answering = arm
        try:
            try:
                while True:
                    try:
                        answered = await attempt(call, arm, ticket, self._sweep)
                        break
                    except Rerouted:
                        deployment, arm = self._assign_again(call)
                        answering = arm
                        call.moved = True
                        ticket.move(arm.book)
                call.outcome = Outcome.OK
                response = answered.response
            except Fault as fault:
                call.outcome = outcome_of(fault)
                stable, response = await self._fall_back(call, arm, fault, ticket)
                answering = stable or arm
            except InputError as error:
                # What stable takes and the arm on trial refuses is a broken promise, not a bad input.
                call.outcome = Outcome.REJECTED
                stable, response = await self._fall_back(call, arm, error, ticket)
                answering = stable or arm
            except Refusal as refusal:
                call.outcome = Outcome.REJECTED
                response = of_refusal(refusal, call.request_id)
            except asyncio.CancelledError:
                call.outcome = Outcome.CANCELLED
                raise
            except Exception as error:
                response = unforeseen(error, call.request_id)
        finally:
            if call.head.connection is not None:
                call.head.connection.on_lost = None
            total_us = (time.perf_counter() - call.head.started) * 1e6
            ticket.settle(call.outcome, total_us, answered.sights if answered else ())
            self._finished(call, deployment, arm, answered, total_us)
        response.standing = answering.headers
        response.headers.append((b"server-timing", call.layers.header()))
        return response

    def _admit(self, call: Call) -> tuple[Deployment, Arm] | Response:
        """Gives the call its deadline and its arm; or says why not."""
        try:
            check_encoding(call)
            allowed = time_allowed(
                call.head.headers.get(TIMEOUT_HEADER),
                self._settings.default_timeout_s,
                self._settings.longest_timeout_s,
            )
            call.deadline = time.monotonic() + allowed
            return self._assign(call)
        except Refusal as refusal:
            return of_refusal(refusal, call.request_id)
        except InputError as error:
            return of_input(error, call.request_id)
        except Loading as loading:
            return of_fault(loading, call.request_id)

    def _assign(self, call: Call) -> tuple[Deployment, Arm]:
        """Raises Refusal (404), Loading (503)."""
        routing = self._routing()
        served = routing.deployments
        deployment = served.get(call.model)
        if deployment is None and routing.seq < 0:
            raise Loading("this node doesn't know yet what it serves", 1)
        if deployment is None:
            raise _unknown_model(call.model, served)
        if call.version is not None:
            arm = deployment.named(call.version)
            if arm is None:
                raise _unknown_version(call.version, deployment)
            return deployment, arm
        value: bytes | None = None
        if deployment.key_header is not None:
            value = call.head.headers.get(deployment.key_header)
        at = deployment.split.choose(call.request_id.encode() if value is None else value)
        if at is None:
            raise Loading(
                f"{deployment.entry.deployment} is not ready on this node", deployment.entry.estimate_s
            )
        return deployment, deployment.arms[at]

    def _assign_again(self, call: Call) -> tuple[Deployment, Arm]:
        """As `_assign`; what was known a moment ago is not unknown now, but taken off this node."""
        try:
            return self._assign(call)
        except Refusal as refusal:
            raise Loading(f"{call.model!r} was just taken off this node", 1) from refusal

    async def _fall_back(
        self, call: Call, failed: Arm, fault: Fault | InputError, ticket: Ticket
    ) -> tuple[Arm | None, Response]:
        """Stable's answer and stable; or the failed arm's own error and None."""
        stable = self._fallback_for(call, failed, fault)
        if stable is None:
            return None, _told(fault, call)
        try:
            answered = await attempt(call, stable, ticket, self._sweep)
        except (Fault, InputError, Refusal):
            return None, _told(fault, call)
        call.fallback = type(fault).__name__
        call.outcome = Outcome.FALLBACK
        answered.response.headers.append((FALLBACK_HEADER, str(failed.entry.arm).encode()))
        return stable, answered.response

    def _fallback_for(self, call: Call, failed: Arm, fault: Fault | InputError) -> Arm | None:
        """The stable arm, when it is another one, is loaded, and there is time and somebody to answer."""
        if call.explicit or call.gone or isinstance(fault, TimedOut | CallerGone) or call.time_left <= 0:
            return None
        deployment = self._routing().deployments.get(call.model)
        stable = deployment.stable if deployment is not None else None
        if stable is None or stable.entry.arm == failed.entry.arm or not stable.loaded:
            return None
        return stable


def outcome_of(fault: Fault) -> Outcome:
    match fault:
        case TimedOut():
            return Outcome.TIMEOUT
        case CallerGone():
            return Outcome.CANCELLED
        case IllegalAnswer():
            return Outcome.ILLEGAL_ANSWER
        case PipelineFault():
            return Outcome.PIPELINE_ERROR
        case RunFault():
            return Outcome.ENGINE_ERROR
        case Cut():
            return Outcome.TIMEOUT
        case _:
            return Outcome.SHED


def _told(fault: Fault | InputError, call: Call) -> Response:
    if isinstance(fault, InputError):
        return of_input(fault, call.request_id)
    return of_fault(fault, call.request_id)


def _unknown_model(model: str, served: object) -> Refusal:
    names = ", ".join(sorted(served)) if isinstance(served, dict) and served else "nothing yet"
    return Refusal(404, f"{model!r} is not served by this node", f"this node serves {names}")


def _unknown_version(version: str, deployment: Deployment) -> Refusal:
    loaded = ", ".join(arm.version_tail for arm in deployment.arms if arm.entry.socket is not None)
    return Refusal(
        404,
        f"version {version!r} of {deployment.name!r} is not loaded on this node",
        f"loaded are {loaded or 'none'}; without a version the route decides",
    )
