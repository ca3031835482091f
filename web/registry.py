"""How pages ask the registry: one client per visitor and request, and panels that may fail alone."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import ValidationError

from registry.client import ApiError, AsyncClient, Call, Unreachable
from registry.contract.problems import Problem, ProblemType

T = TypeVar("T")


class SignedOut(Exception):
    """There is no session, or the registry refuses it: sign in first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a panel shows instead of its content. `status` 0: no answer came."""

    what: str
    detail: str
    hint: str
    request_id: str
    status: int


class Marked(httpx.AsyncBaseTransport):
    """Says through which door a request comes, and under which id."""

    def __init__(self, inner: httpx.AsyncBaseTransport, request_id: str) -> None:
        self._inner = inner
        self._request_id = request_id

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["x-slipway-via"] = "UI"
        request.headers["x-request-id"] = self._request_id
        return await self._inner.handle_async_request(request)


@dataclass(frozen=True, slots=True)
class Registry:
    """Where the registry is: the transport is shared by all requests. `patience_s` bounds a panel."""

    transport: httpx.AsyncBaseTransport
    url: str
    patience_s: float

    def client(self, secret: str, request_id: str) -> AsyncClient:
        """Raises SignedOut for what can't be a secret: no request could carry it."""
        try:
            return AsyncClient(self.url, secret, Marked(self.transport, request_id))
        except ValueError as error:
            problem = Problem(
                type=f"/problems/{ProblemType.UNAUTHENTICATED}",
                title="Who are you?",
                status=401,
                detail=str(error),
                hint="copy the token again, or ask an admin for one",
            )
            raise SignedOut from ApiError(problem)


@dataclass(frozen=True, slots=True)
class Asker:
    """A visitor's client with its manners."""

    client: AsyncClient
    request_id: str
    patience_s: float

    async def must(self, call: Call[T]) -> T:
        """For what the page can't do without. Raises SignedOut, ApiError, Unreachable, TimeoutError."""
        try:
            return await self.client(call)
        except ApiError as error:
            if error.status == 401:
                raise SignedOut from error
            raise

    async def panel(self, what: str, call: Call[T]) -> T | Failure:
        """`what` completes "… can't be shown". Raises SignedOut only."""
        try:
            async with asyncio.timeout(self.patience_s):
                return await self.must(call)
        except (ApiError, Unreachable, TimeoutError, ValidationError) as error:
            return failure(what, error, self.request_id)


def failure(
    what: str, error: ApiError | Unreachable | TimeoutError | ValidationError, request_id: str
) -> Failure:
    """An error in the words of a panel."""
    if isinstance(error, ApiError):
        found = error.problem
        return Failure(what, found.detail, found.hint, found.request_id or request_id, found.status)
    if isinstance(error, TimeoutError):
        return Failure(
            what,
            "the registry did not answer in time",
            "this page tries again by itself; /readyz says which part of the registry is away",
            request_id,
            0,
        )
    if isinstance(error, ValidationError):
        return Failure(
            what,
            f"the registry's answer has another form than expected: {error.error_count()} fields",
            "run the web UI and the registry at the same version",
            request_id,
            0,
        )
    return Failure(what, str(error), "check that the registry runs", request_id, 0)
