"""One pipeline worker as its gateway sees it: started, asked one question at a time, killed when it hangs."""

import asyncio
import contextlib
import os
import socket
import sys

from serving.engine.errors import FrameError
from serving.engine.frames import Frame, FrameKind, Received, new_scratch, receive
from serving.gateway.pipelines.messages import Order

START_S = 60.0
_SEND_BUFFER = 1 << 20


class WorkerLost(Exception):
    """The process ended, or said what can't be understood."""


class WorkerUnfit(Exception):
    """The process says that this version's pipeline can't be made."""


class WorkerProcess:
    """`start` is the way to get one. It dies with this process."""

    def __init__(self, child: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self._child = child
        self._sock = sock
        self._scratch = new_scratch()

    @classmethod
    async def start(cls, order: Order) -> "WorkerProcess":
        """Returns when it is ready. Raises WorkerUnfit, WorkerLost, OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        for sock in (ours, theirs):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        try:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "serving.gateway.pipelines"),
                *(f"--fd={theirs.fileno()}", f"--parent={os.getpid()}"),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = cls(child, ours)
        try:
            async with asyncio.timeout(START_S):
                await worker._brief(order)
        except TimeoutError as error:
            worker.kill()
            raise WorkerLost(f"a pipeline worker was not ready within {START_S:g} s") from error
        except BaseException:
            worker.kill()
            await worker.gone()
            raise
        return worker

    async def ask(self, frame: Frame) -> Received:
        """The answer to one question. Raises WorkerLost; the question may have had its effect on the process
        all the same."""
        try:
            while not frame.send(self._sock):
                await self._ready(writing=True)
        except OSError as error:
            raise WorkerLost(f"the pipeline worker takes no question: {error}") from error
        finally:
            frame.drop()
        return await self._receive()

    @property
    def pid(self) -> int:
        return self._child.pid

    def kill(self) -> None:
        """At once, whatever it does. May be called twice."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        self._sock.close()

    async def gone(self) -> None:
        """Until a killed one has left the table of processes."""
        await self._child.wait()

    async def _brief(self, order: Order) -> None:
        stdin = self._child.stdin
        assert stdin is not None, "asked for above"
        with contextlib.suppress(ConnectionError):
            stdin.write(order.model_dump_json().encode())
            await stdin.drain()
            stdin.close()
            await stdin.wait_closed()
        ready = await self._receive()
        if ready.kind is FrameKind.FAILED:
            raise WorkerUnfit(str(ready.body.get("failed")))

    async def _receive(self) -> Received:
        while True:
            try:
                received = receive(self._sock, self._scratch)
            except (BlockingIOError, InterruptedError):
                await self._ready(writing=False)
                continue
            except (OSError, FrameError) as error:
                raise WorkerLost(f"the pipeline worker can't be understood: {error}") from error
            if received is None:
                code = await self._child.wait()
                raise WorkerLost(f"the pipeline worker ended ({_name(code)})")
            return received

    async def _ready(self, *, writing: bool) -> None:
        """Until the socket can be read, or written to."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        watch, forget = (
            (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        )
        fd = self._sock.fileno()
        watch(fd, lambda: None if waiter.done() else waiter.set_result(None))
        try:
            await waiter
        finally:
            forget(fd)


def _name(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
