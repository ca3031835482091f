"""The loop of an engine process: many clients, one run at a time, in order of arrival.

One thread does all: a hand-over to a worker thread costs more than everything else here. While a run goes
on nothing is read; its client's vanishing is seen right after it, before the next run is chosen. Of each
client one request is read ahead, the others wait in its socket: clients take turns, and none can fill the
memory.
"""

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from serving.engine.errors import FrameError
from serving.engine.facts import EngineInfo, WarmPoint, WarmReport
from serving.engine.frames import (
    Frame,
    FrameKind,
    Received,
    new_scratch,
    plain_frame,
    receive,
    tensor_frame,
    tensors_of,
)
from serving.runtimes.errors import InputError, RuntimeFault
from serving.runtimes.protocol import LoadedEngine
from serving.runtimes.warm import warm

_UNREAD_PER_CLIENT = 256
_BACKLOG = 128
_TEXT_LIMIT = 4096
_GONE = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP


class Server:
    """`facts` gives the process's description; `stop` ends the loop after the present run."""

    def __init__(self, path: Path, engine: LoadedEngine, facts: Callable[[int], EngineInfo]) -> None:
        self._engine = engine
        self._facts = facts
        self._runs = 0
        self._scratch = new_scratch()
        self._clients: dict[int, _Client] = {}
        self._queue: deque[tuple[_Client, Received]] = deque()
        self._poll = select.epoll()
        self._listener = _listen(path)
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._wake_fd, self._wake_write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._wake_fd, select.EPOLLIN)
        self._lifeline: int | None = None
        self._stopping = False

    @property
    def wake_fd(self) -> int:
        """For `signal.set_wakeup_fd`: a signal must end the wait even between two checks."""
        return self._wake_write_fd

    def watch(self, fd: int) -> None:
        """The loop ends when the other side of `fd` closes."""
        self._lifeline = fd
        self._poll.register(fd, select.EPOLLIN | select.EPOLLRDHUP)

    def stop(self) -> None:
        self._stopping = True

    def serve(self) -> None:
        """Returns after `stop` or when the watched descriptor closes."""
        while not self._stopping:
            for fd, events in self._poll.poll(0 if self._queue else None):
                client = self._clients.get(fd)
                if client is not None:
                    self._attend(client, events)
                elif fd == self._listener.fileno():
                    self._accept()
                elif fd in (self._lifeline, self._wake_fd):
                    self._stopping = True
            if self._queue and not self._stopping:
                self._run(*self._queue.popleft())
        self._close()

    def _close(self) -> None:
        for client in list(self._clients.values()):
            self._dismiss(client)
        self._listener.close()
        self._poll.close()
        os.close(self._wake_fd)
        os.close(self._wake_write_fd)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            self._clients[sock.fileno()] = _Client(sock)
            self._poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)

    def _attend(self, client: "_Client", events: int) -> None:
        if events & _GONE:
            self._dismiss(client)
            return
        try:
            if events & select.EPOLLOUT and client.flush():
                self._poll.modify(client.fd, select.EPOLLIN | select.EPOLLRDHUP)
            if events & select.EPOLLIN and not client.queued:
                frame = receive(client.sock, self._scratch)
                if frame is None:
                    self._dismiss(client)
                else:
                    self._take(client, frame)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, FrameError):
            self._dismiss(client)

    def _take(self, client: "_Client", frame: Received) -> None:
        if frame.kind is FrameKind.PING:
            self._answer(client, plain_frame(FrameKind.REPORT, frame.request))
        elif frame.kind is FrameKind.INFO:
            info = self._facts(self._runs).model_dump(mode="json")
            self._answer(client, plain_frame(FrameKind.REPORT, frame.request, 0, info))
        elif frame.kind not in (FrameKind.INFER, FrameKind.WARM):
            raise FrameError(f"{frame.kind.name} is no request")
        else:
            client.queued = True
            self._queue.append((client, frame))

    def _run(self, client: "_Client", frame: Received) -> None:
        client.queued = False
        try:
            if frame.kind is FrameKind.WARM:
                reply = self._warm(frame)
            elif frame.number and frame.number < time.monotonic_ns() // 1000:
                reply = _failed(frame, "expired", "its deadline passed before the engine could run it")
            else:
                reply = self._infer(frame)
        except FrameError:
            self._dismiss(client)
            return
        except InputError as error:
            reply = _failed(
                frame,
                error.kind,
                "",
                what=error.what,
                wanted=error.wanted,
                got=error.got,
                mend=error.mend,
            )
        except RuntimeFault as error:
            reply = _failed(frame, error.kind, str(error))
        except Exception as error:
            # Whatever one request provokes must not end the process that others use.
            reply = _failed(frame, "internal", f"{type(error).__name__}: {error}")
        self._answer(client, reply)

    def _infer(self, frame: Received) -> Frame:
        inputs = tensors_of(frame)
        started = time.perf_counter_ns()
        outputs = self._engine.infer(inputs)
        engine_us = (time.perf_counter_ns() - started) // 1000
        self._runs += 1
        return tensor_frame(FrameKind.ANSWER, frame.request, engine_us, outputs)

    def _warm(self, frame: Received) -> Frame:
        warmed = warm(self._engine, max(1, frame.number), tensors_of(frame))
        points = tuple(
            WarmPoint(rows=run.rows, first_us=int(run.first_s * 1e6), again_us=int(run.again_s * 1e6))
            for run in warmed.runs
        )
        report = WarmReport(points=points, skipped=warmed.skipped[:_TEXT_LIMIT])
        return plain_frame(FrameKind.REPORT, frame.request, 0, report.model_dump(mode="json"))

    def _answer(self, client: "_Client", frame: Frame) -> None:
        """A client that doesn't read what it asked for is dismissed, before it fills the memory."""
        if client.closed:
            frame.drop()
            return
        try:
            if not client.send(frame):
                self._poll.modify(client.fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)
            if len(client.unsent) > _UNREAD_PER_CLIENT:
                self._dismiss(client)
        except OSError:
            frame.drop()
            self._dismiss(client)

    def _dismiss(self, client: "_Client") -> None:
        if client.closed:
            return
        del self._clients[client.fd]
        self._poll.unregister(client.fd)
        client.close()
        if client.queued:
            self._queue = deque(entry for entry in self._queue if entry[0] is not client)


class _Client:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.queued = False
        self.closed = False
        self.unsent: deque[Frame] = deque()

    def send(self, frame: Frame) -> bool:
        """False when it has to wait for the client to read."""
        if not self.unsent and frame.send(self.sock):
            return True
        self.unsent.append(frame)
        return False

    def flush(self) -> bool:
        """True when nothing waits any more."""
        while self.unsent and self.unsent[0].send(self.sock):
            self.unsent.popleft()
        return not self.unsent

    def close(self) -> None:
        self.closed = True
        self.sock.close()
        for frame in self.unsent:
            frame.drop()
        self.unsent.clear()


def _listen(path: Path) -> socket.socket:
    """A socket file left by a killed process is replaced."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    listener.setblocking(False)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(_BACKLOG)
    return listener


def _failed(frame: Received, kind: str, message: str, **facts: str) -> Frame:
    body = {"kind": kind, "message": message, **facts}
    short = {key: value[:_TEXT_LIMIT] for key, value in body.items()}
    return plain_frame(FrameKind.FAILED, frame.request, 0, short)
