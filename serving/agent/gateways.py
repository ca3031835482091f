"""Supervises the gateway workers: one listening socket for all of them, tables out, answers in."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from registry.contract.routes import Fence
from serving.agent.actions import Publish
from serving.agent.snapshot import Published
from serving.agent.state import StateDirectory
from serving.agent.tables import published_by
from serving.agent.workers import Worker, drained_by_all, overdue, taken_by_all
from serving.control import Drained, EngineLost, FromGateway, Hello, Table, Taken

RESTART_FIRST_S = 0.1
RESTART_LONGEST_S = 10.0
CALM_S = 10.0
LINE_LIMIT = 1 << 20

log = logging.getLogger("agent")
_MESSAGE: TypeAdapter[Hello | Taken | Drained | EngineLost] = TypeAdapter(FromGateway)


@dataclass(slots=True)
class _Child:
    """One worker's process and its line to us."""

    worker: Worker
    process: asyncio.subprocess.Process
    writer: asyncio.StreamWriter | None = None


class Gateways:
    """`changed` is called at every message that may move a decision; `lost` for an engine that a worker
    has no connection to any more. Numbers of workers are never used twice in one incarnation, so that
    the counters of one that was killed stay as they are."""

    def __init__(
        self,
        state: StateDirectory,
        incarnation: str,
        registry_id: str,
        listener: socket.socket,
        count: int,
        changed: Callable[[], None],
        lost: Callable[[EngineLost], None],
    ) -> None:
        self._state = state
        self._incarnation = incarnation
        self._listener = listener
        self._count = count
        self._changed = changed
        self._lost = lost
        self._children: dict[int, _Child] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._next_number = 0
        self._stopping = asyncio.Event()
        self._table = Table(seq=0, registry_id=registry_id, entries=())
        self.published: Mapping[str, Published] = {}

    @property
    def control(self) -> Path:
        return self._state.run / "agent.sock"

    @property
    def draining(self) -> bool:
        return self._table.draining

    @property
    def alive(self) -> frozenset[int]:
        """Numbers of the workers whose process runs."""
        return frozenset(self._children)

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(child.worker for child in self._children.values())

    def taken(self) -> int | None:
        return taken_by_all(self.workers)

    def drained(self) -> Mapping[str, Fence]:
        return drained_by_all(self.workers)

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.control, limit=LINE_LIMIT)
        self._keepers = [
            asyncio.create_task(self._keep(), name=f"gateway {place}") for place in range(self._count)
        ]

    def publish(self, publish: Publish) -> None:
        """Send a new table to every worker. One that stays silent for a second is killed: what it routes
        by is then not known."""
        seq = self._table.seq + 1
        self._table = self._table.model_copy(
            update={"seq": seq, "entries": publish.entries, "draining": publish.draining}
        )
        self.published = published_by(self.published, publish, seq)
        line = _line(self._table)
        for child in self._children.values():
            self._send(child, line)

    async def close(self, grace_s: float) -> None:
        """Let every request inside end, at most for `grace_s`, then end the workers."""
        self._stopping.set()
        children = list(self._children.values())
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
        if self._keepers:
            _, late = await asyncio.wait(self._keepers, timeout=grace_s)
            for child in self._children.values():
                log.warning("gateway worker %d did not end in %.0f s, killed", child.worker.number, grace_s)
                with contextlib.suppress(ProcessLookupError):
                    child.process.kill()
            if late:
                await asyncio.wait(late, timeout=5)
        if self._server is not None:
            self._server.close()

    async def _keep(self) -> None:
        """One place of the pool: a worker, and the next one when it ended."""
        pause = RESTART_FIRST_S
        while not self._stopping.is_set():
            number = self._next_number
            self._next_number += 1
            started = time.monotonic()
            try:
                process = await self._spawn(number)
            except OSError as error:
                log.error("gateway worker %d could not be started: %s", number, error)
            else:
                self._children[number] = _Child(Worker(number, process.pid), process)
                code = await process.wait()
                del self._children[number]
                if not self._stopping.is_set():
                    log.error("gateway worker %d (pid %d) ended with %d", number, process.pid, code)
                self._changed()
            if self._stopping.is_set():
                return
            calm = time.monotonic() - started > CALM_S
            pause = RESTART_FIRST_S if calm else min(RESTART_LONGEST_S, pause * 2)
            await asyncio.sleep(pause)

    async def _spawn(self, number: int) -> asyncio.subprocess.Process:
        descriptor = self._listener.fileno()
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "serving.gateway",
            f"--control={self.control}",
            f"--worker={number}",
            f"--fd={descriptor}",
            f"--state={self._state.root}",
            f"--incarnation={self._incarnation}",
            f"--parent={os.getpid()}",
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(descriptor,),
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One worker's line, from its Hello to its end."""
        child: _Child | None = None
        try:
            while line := await reader.readline():
                message = _MESSAGE.validate_json(line)
                if isinstance(message, Hello):
                    child = self._children.get(message.worker)
                    if child is None:
                        return
                    child.writer = writer
                    self._send(child, _line(self._table))
                elif child is not None:
                    self._hear(child.worker, message)
        except (ValidationError, ConnectionError, ValueError) as error:
            log.error("a gateway worker's line broke: %s", error)
        finally:
            writer.close()
            if child is not None and child.worker.number in self._children and not self._stopping.is_set():
                self._kill(child, "it closed its line to the agent")

    def _hear(self, worker: Worker, message: Taken | Drained | EngineLost) -> None:
        match message:
            case Taken(seq=seq):
                worker.take(seq)
            case Drained(deployment=deployment, fence=fence):
                worker.drain(deployment, fence)
            case EngineLost():
                self._lost(message)
        self._changed()

    def _send(self, child: _Child, line: bytes) -> None:
        if child.writer is None:
            return
        now = time.monotonic()
        child.worker.send(self._table, now)
        child.writer.write(line)
        if child.worker.overdue_at is not None:
            asyncio.get_running_loop().call_later(child.worker.overdue_at - now + 0.01, self._watch)

    def _watch(self) -> None:
        now = time.monotonic()
        for worker in overdue(self.workers, now):
            self._kill(self._children[worker.number], f"it is silent since table {worker.sent}")

    def _kill(self, child: _Child, reason: str) -> None:
        log.error("gateway worker %d is killed: %s", child.worker.number, reason)
        child.worker.overdue_at = None
        with contextlib.suppress(ProcessLookupError):
            child.process.kill()


def _line(table: Table) -> bytes:
    return table.model_dump_json().encode() + b"\n"
