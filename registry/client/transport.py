"""The two faces that send a `Call`: `Client` (blocking) and `AsyncClient`. Both share every rule."""

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

import httpx
import orjson
from pydantic import ValidationError

from registry.client.call import Call
from registry.client.errors import ApiError, Unreachable
from registry.client.given import address_of, token_of
from registry.client.tls import tls
from registry.contract.problems import Problem, ProblemType

T = TypeVar("T")

ATTEMPTS = 4
FIRST_PAUSE_S = 0.2
# A registry that crashed is started again within seconds.
OUTAGE_S = 30.0
OUTAGE_PAUSE_S = 0.5
RETRIED = frozenset({502, 503, 504})


def _request(call: Call[T], token: str, key: str) -> dict[str, object]:
    headers = {"accept": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    if call.method != "GET":
        headers["idempotency-key"] = key
    if call.if_match is not None:
        headers["if-match"] = f'"{call.if_match}"'
    content = None
    if call.body is not None:
        headers["content-type"] = "application/json"
        content = orjson.dumps(call.body.model_dump(mode="json", exclude_unset=call.method == "PATCH"))
    return {
        "method": call.method,
        "url": call.path,
        "params": call.query or None,
        "headers": headers,
        "content": content,
        "timeout": call.timeout_s,
    }


def _answer(call: Call[T], response: httpx.Response) -> T:
    if response.is_success:
        return call.parse(response.content)
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        problem = Problem(
            type=f"/problems/{ProblemType.INTERNAL}",
            title="Not a registry's answer",
            status=response.status_code,
            detail=f"{call.method} {call.path} answered {response.status_code} without a problem document",
            hint="check that the address is a Slipway registry and not a proxy in front of it",
        )
    raise ApiError(problem)


def _location(call: Call[T], response: httpx.Response) -> str:
    if response.has_redirect_location:
        return str(response.headers["location"])
    _answer(call, response)
    raise ValueError(f"{call.method} {call.path} answered {response.status_code} and no redirect")


def _pauses() -> Iterator[float]:
    """Waits between attempts: doubling, with full jitter."""
    for attempt in range(ATTEMPTS - 1):
        yield FIRST_PAUSE_S * 2**attempt * (0.5 + random.random())  # noqa: S311 - jitter is no secret


def _retry_after(response: httpx.Response, pause: float) -> float:
    try:
        return max(pause, min(5.0, float(response.headers.get("retry-after", ""))))
    except ValueError:
        return pause


class Client:
    """Blocking face. `transport` serves a registry in the same process; safe to share between threads.

    `tell` is given a sentence when an outage is ridden out.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        transport: httpx.BaseTransport | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.url = address_of(url, "what was given as address of the registry")
        self._token = token_of(token, "what was given as token")
        self._http = httpx.Client(base_url=self.url, transport=transport, verify=tls(), trust_env=False)
        self._tell = tell
        self._riding = 0
        self._lock = threading.Lock()

    @contextmanager
    def riding_out(self) -> Iterator[None]:
        """In the block a registry that is away is waited for, `OUTAGE_S` seconds in each call: long work
        should not be lost to a restart. In all threads that use this client."""
        with self._lock:
            self._riding += 1
        try:
            yield
        finally:
            with self._lock:
                self._riding -= 1

    def __call__(self, call: Call[T]) -> T:
        """Raises ApiError (the registry refused) or Unreachable (no answer after a few attempts)."""
        return _answer(call, self._send(call))

    def location(self, call: Call[T]) -> str:
        """Where the call redirects to; the redirect is not followed. Raises as a call does."""
        return _location(call, self._send(call))

    def pieces(self, call: Call[bytes]) -> Iterator[bytes]:
        """The answer as it comes, however long it is; sent once. Raises as a call does, also midway."""
        try:
            with self._http.stream(**_request(call, self._token, "")) as response:  # type: ignore[arg-type]
                if not response.is_success:
                    response.read()
                    _answer(call, response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error

    def _send(self, call: Call[T]) -> httpx.Response:
        key = str(uuid.uuid4())
        pauses = self._pauses()
        while True:
            try:
                response = self._http.request(**_request(call, self._token, key))  # type: ignore[arg-type]
            except httpx.TransportError as error:
                pause = next(pauses, None) if call.repeatable else None
                if pause is None:
                    raise Unreachable(self.url, str(error) or type(error).__name__) from error
            else:
                pause = next(pauses, None) if response.status_code in RETRIED and call.repeatable else None
                if pause is None:
                    return response
                pause = _retry_after(response, pause)
            time.sleep(pause)

    def _pauses(self) -> Iterator[float]:
        """Those of every call, and then those of an outage that is ridden out."""
        yield from _pauses()
        if not self._riding:
            return
        if self._tell is not None:
            self._tell(f"no answer from the registry; waiting up to {OUTAGE_S:g} s for it to come back")
        end = time.monotonic() + OUTAGE_S
        while time.monotonic() < end:
            yield OUTAGE_PAUSE_S

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Asynchronous face, the same rules as `Client`."""

    def __init__(self, url: str, token: str = "", transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = address_of(url, "what was given as address of the registry")
        self._token = token_of(token, "what was given as token")
        self._http = httpx.AsyncClient(base_url=self.url, transport=transport, verify=tls(), trust_env=False)

    async def __call__(self, call: Call[T]) -> T:
        """Raises ApiError (the registry refused) or Unreachable (no answer after a few attempts)."""
        return _answer(call, await self._send(call))

    async def location(self, call: Call[T]) -> str:
        """Where the call redirects to; the redirect is not followed. Raises as a call does."""
        return _location(call, await self._send(call))

    async def pieces(self, call: Call[bytes]) -> AsyncIterator[bytes]:
        """The answer as it comes, however long it is; sent once. Raises as a call does, also midway."""
        try:
            async with self._http.stream(**_request(call, self._token, "")) as response:  # type: ignore[arg-type]
                if not response.is_success:
                    await response.aread()
                    _answer(call, response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.TransportError as error:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error

    async def _send(self, call: Call[T]) -> httpx.Response:
        key = str(uuid.uuid4())
        pauses = _pauses()
        while True:
            try:
                response = await self._http.request(**_request(call, self._token, key))  # type: ignore[arg-type]
            except httpx.TransportError as error:
                pause = next(pauses, None) if call.repeatable else None
                if pause is None:
                    raise Unreachable(self.url, str(error) or type(error).__name__) from error
            else:
                pause = next(pauses, None) if response.status_code in RETRIED and call.repeatable else None
                if pause is None:
                    return response
                pause = _retry_after(response, pause)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
