"""Starts one engine process, watches it become ready, and ends it."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from serving.engine.errors import EngineStartFailed
from serving.engine.facts import EngineInfo
from serving.runtimes.protocol import GraphOptimisation, LoadOptions

Report = Callable[[str], None]
_LOG_TAIL = 4096
_LINE_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """What to start.

    `socket`: where the process shall listen (under 100 bytes). `warm_rows`: batch buckets up to it are run
    before the process is ready, 0 for none. `log`: where its output goes; None: to the caller's.
    """

    engine: Path
    target: str
    socket: Path
    threads: int = 1
    graph_optimisation: GraphOptimisation = LoadOptions().graph_optimisation
    warm_rows: int = 0
    log: Path | None = None

    def arguments(self) -> list[str]:
        return [
            f"--socket={self.socket}",
            f"--engine={self.engine}",
            f"--target={self.target}",
            f"--threads={self.threads}",
            f"--graph-optimisation={self.graph_optimisation}",
            f"--warm-rows={self.warm_rows}",
        ]


class EngineProcess:
    """A child of this process; it dies when this process does."""

    def __init__(self, order: EngineOrder, child: asyncio.subprocess.Process, control: socket.socket) -> None:
        """`spawn` is the way to get one."""
        self.order = order
        self.info: EngineInfo | None = None
        """Facts and load times as of readiness; None before."""
        self._child = child
        self._control = control

    @classmethod
    async def spawn(cls, order: EngineOrder) -> "EngineProcess":
        """Returns once the process exists, before it is ready. Raises EngineStartFailed, OSError."""
        ours, theirs = socket.socketpair()
        log = None if order.log is None else order.log.open("ab")
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "serving.engine",
                *order.arguments(),
                f"--control-fd={theirs.fileno()}",
                f"--parent={os.getpid()}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if log is not None:
                log.close()
        return cls(order, child, ours)

    async def ready(self, timeout_s: float = 300.0, report: Report | None = None) -> EngineInfo:
        """Waits until the process listens. `report` is told each part as it begins: `start`, `read`,
        `deserialise`, `copy`, `warm_up`.

        Raises EngineStartFailed with the process's own reason, or with the end of its log; the process is
        gone then.
        """
        try:
            async with asyncio.timeout(timeout_s):
                self.info = await self._follow(report or (lambda part: None))
        except TimeoutError as error:
            await self.kill()
            raise EngineStartFailed("timeout", f"the engine was not ready within {timeout_s} s") from error
        except EngineStartFailed:
            await self._end_by_itself()
            raise
        return self.info

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.returncode is None

    @property
    def returncode(self) -> int | None:
        """Negative: the signal that ended it. None while it runs."""
        return self._child.returncode

    @property
    def rss_bytes(self) -> int:
        """Resident memory now; 0 when it is gone."""
        with contextlib.suppress(OSError, IndexError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def wait(self) -> int:
        """Returns its return code once it ended."""
        code = await self._child.wait()
        self._control.close()
        return code

    async def stop(self, grace: float = 5.0) -> int:
        """Lets the present run end, at most `grace` seconds, then kills. Returns the return code."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            async with asyncio.timeout(grace):
                return await self.wait()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """SIGKILL at once. Returns the return code."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        return await self.wait()

    async def _end_by_itself(self, grace: float = 5.0) -> None:
        try:
            async with asyncio.timeout(grace):
                await self.wait()
        except TimeoutError:
            await self.kill()

    async def _follow(self, report: Report) -> EngineInfo:
        self._control.setblocking(False)
        loop = asyncio.get_running_loop()
        pending = b""
        while True:
            data = await loop.sock_recv(self._control, 65536)
            if not data:
                code = await self._child.wait()
                raise EngineStartFailed("died", f"the engine process ended with {code}{self._log_tail()}")
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                message = orjson.loads(line)
                if "ready" in message:
                    return EngineInfo.model_validate(message["ready"])
                if "failed" in message:
                    raise EngineStartFailed(message["failed"]["kind"], message["failed"]["message"])
                report(message["part"])

    def _log_tail(self) -> str:
        if self.order.log is None:
            return ""
        with contextlib.suppress(OSError):
            text = self.order.log.read_bytes()[-_LOG_TAIL:].decode(errors="replace").strip()
            return f"; the end of {self.order.log}:\n{text}"
        return ""
