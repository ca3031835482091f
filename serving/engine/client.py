"""The asyncio client of an engine process, for gateways and agents.

Outputs are read-only arrays. Several requests may be in flight on one client; the process runs one at a
time, in the order of arrival over all its clients.
"""

import asyncio
import contextlib
import socket
import time
from collections import deque
from pathlib import Path
from typing import TypeVar

from serving.engine.answers import EngineAnswer, result_of
from serving.engine.errors import EngineError, EngineLost, EngineTimeout, FrameError
from serving.engine.facts import EngineInfo, WarmReport
from serving.engine.frames import (
    Frame,
    FrameKind,
    new_scratch,
    plain_frame,
    receive,
    tensor_frame,
)
from serving.runtimes.errors import InputError
from serving.runtimes.protocol import Tensors

T = TypeVar("T")
Reply = asyncio.Future[EngineAnswer]


class EngineClient:
    """One connection, used by one event loop. After EngineLost it is of no use: connect anew."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes a connected, non-blocking socket; `connect` is the way to get one."""
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._scratch = new_scratch()
        self._waiting: dict[int, asyncio.Future[EngineAnswer] | asyncio.Future[object]] = {}
        self._unsent: deque[Frame] = deque()
        self._next = 1
        self._lost: EngineLost | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, once the connection is gone."""
        self._loop.add_reader(sock.fileno(), self._readable)

    @classmethod
    async def connect(cls, path: str | Path, timeout_s: float = 5.0) -> "EngineClient":
        """Raises EngineLost when nobody listens at `path`."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        sock.setblocking(False)
        try:
            async with asyncio.timeout(timeout_s):
                await _connect(sock, str(path))
        except (OSError, TimeoutError) as error:
            sock.close()
            raise EngineLost(f"no engine process answers at {path}: {error or 'timed out'}") from error
        return cls(sock)

    @property
    def in_flight(self) -> int:
        """Requests that the process has not answered yet, abandoned ones included: the slot belongs to
        the work, not to the waiter."""
        return len(self._waiting)

    def submit(self, inputs: Tensors, deadline: float | None = None) -> Reply:
        """Sends one run; never waits. The future ends as `infer` does, but for EngineTimeout.

        `deadline`: on `time.monotonic()`; a run that could not begin by then is answered by EngineFailed
        (`expired`). Raises EngineLost, and InputError for a dtype that has no name.
        """
        number = 0 if deadline is None else max(1, int(deadline * 1e6))
        request = self._request()
        self._send(tensor_frame(FrameKind.INFER, request, number, inputs))
        reply: Reply = self._loop.create_future()
        self._waiting[request] = reply
        return reply

    async def infer(self, inputs: Tensors, timeout_s: float | None = None) -> EngineAnswer:
        """One run of the engine.

        Raises InputError (the inputs don't fit the engine), EngineFailed (this run failed), EngineTimeout,
        EngineLost.
        """
        if timeout_s is None:
            return await self.submit(inputs)
        reply = self.submit(inputs, time.monotonic() + timeout_s)
        return await _within(reply, timeout_s)

    async def info(self, timeout_s: float = 30.0) -> EngineInfo:
        return EngineInfo.model_validate(await self._ask(FrameKind.INFO, 0, timeout_s))

    async def ping(self, timeout_s: float = 5.0) -> None:
        """Returns when the process's loop turned. It is answered between two runs, never during one."""
        await self._ask(FrameKind.PING, 0, timeout_s)

    async def warm(
        self, max_rows: int, example: Tensors | None = None, timeout_s: float = 120.0
    ) -> WarmReport:
        """Runs every batch bucket up to `max_rows` twice, of one `example` row or made-up inputs."""
        request = self._request()
        self._send(tensor_frame(FrameKind.WARM, request, max_rows, example or {}))
        return WarmReport.model_validate(await _within(self._wait_for(request), timeout_s))

    def close(self) -> None:
        """Ends the connection; whatever is in flight raises EngineLost. May be called twice."""
        self._lose("this client was closed")

    async def _ask(self, kind: FrameKind, number: int, timeout_s: float) -> object:
        request = self._request()
        self._send(plain_frame(kind, request, number))
        return await _within(self._wait_for(request), timeout_s)

    def _wait_for(self, request: int) -> asyncio.Future[object]:
        reply: asyncio.Future[object] = self._loop.create_future()
        self._waiting[request] = reply
        return reply

    def _request(self) -> int:
        if self._lost is not None:
            raise EngineLost(str(self._lost))
        self._next += 1
        return self._next

    def _send(self, frame: Frame) -> None:
        try:
            if self._unsent or not frame.send(self._sock):
                if not self._unsent:
                    self._loop.add_writer(self._sock.fileno(), self._writable)
                self._unsent.append(frame)
        except OSError as error:
            frame.drop()
            self._lose(f"sending to the engine process failed: {error}")
            raise EngineLost(str(self._lost)) from error

    def _writable(self) -> None:
        try:
            while self._unsent and self._unsent[0].send(self._sock):
                self._unsent.popleft()
        except OSError as error:
            self._lose(f"sending to the engine process failed: {error}")
            return
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        try:
            frame = receive(self._sock, self._scratch)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, FrameError) as error:
            self._lose(f"reading from the engine process failed: {error}")
            return
        if frame is None:
            self._lose("the engine process closed the connection")
            return
        waiter = self._waiting.pop(frame.request, None)
        if waiter is None or waiter.done():
            return
        try:
            waiter.set_result(result_of(frame))  # type: ignore[arg-type]
        except FrameError as error:
            waiter.set_exception(error)
            self._lose(f"the engine process sent a malformed frame: {error}")
        except (EngineError, InputError) as error:
            waiter.set_exception(error)

    def _lose(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = EngineLost(reason)
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        for frame in self._unsent:
            frame.drop()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(EngineLost(reason))
        if not self.lost.done():
            self.lost.set_result(reason)


async def _connect(sock: socket.socket, path: str) -> None:
    """A full backlog refuses a non-blocking connect at once (EAGAIN): try again until the time is up."""
    while True:
        with contextlib.suppress(BlockingIOError):
            sock.connect(path)
            return
        await asyncio.sleep(0.01)


async def _within(reply: asyncio.Future[T], timeout_s: float) -> T:
    """On a time-out the future is cancelled, and its request stays in flight until it is answered."""
    try:
        async with asyncio.timeout(timeout_s):
            return await reply
    except TimeoutError as error:
        raise EngineTimeout(f"the engine gave no answer within {timeout_s} s") from error
