"""Supervises the engine processes: verify, start, warm, watch, restart with backoff."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from registry.contract.nodes import AssignedArm, EngineRef, SlotPhase
from serving.agent.fetch import file_digest
from serving.agent.loading import blobs
from serving.agent.snapshot import Slot, SlotKey
from serving.agent.state import StateDirectory
from serving.engine.client import EngineClient
from serving.engine.errors import EngineError, EngineStartFailed
from serving.engine.launch import EngineOrder, EngineProcess

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
CALM_S = 60.0
TRIES = 3
PROBE_TIMEOUT_S = 20.0
MIB = 1 << 20

log = logging.getLogger("agent")


@dataclass(slots=True)
class _Running:
    """Mutable book-keeping of one slot. `crashes` in a row, forgotten after a calm minute."""

    slot: Slot
    task: asyncio.Task[None] | None = None
    process: EngineProcess | None = None
    crashes: int = 0
    ready_at: float | None = None
    lost: str = ""
    killing: asyncio.Task[int] | None = None


class Engines:
    """All slots of the node.

    `changed` is called at every change of a phase; `bad(digest, reason)` when a file can't be loaded;
    `damaged(digest)` when the bytes on disk are no longer those of the digest.
    """

    def __init__(
        self,
        state: StateDirectory,
        threads: int,
        changed: Callable[[], None],
        bad: Callable[[str, str], None],
        damaged: Callable[[str], None],
    ) -> None:
        self._state = state
        self._threads = threads
        self._changed = changed
        self._bad = bad
        self._damaged = damaged
        self._running: dict[SlotKey, _Running] = {}
        self._numbers = itertools.count(1)

    def slots(self) -> Mapping[SlotKey, Slot]:
        return {key: running.slot for key, running in self._running.items()}

    def start(self, key: SlotKey, arm: AssignedArm) -> None:
        """Begin to load, or load again what failed. `arm.engine` is on disk."""
        engine = arm.engine
        assert engine is not None
        before = self._running.get(key)
        running = _Running(Slot(key, arm, SlotPhase.VERIFYING), crashes=before.crashes if before else 0)
        self._running[key] = running
        running.task = asyncio.create_task(self._live(running, engine), name=f"engine {arm.version}")

    def stop(self, key: SlotKey, reason: str) -> None:
        """End the process of a slot (after its present run) and forget the slot."""
        running = self._running.get(key)
        if running is None or running.slot.phase is SlotPhase.UNLOADING:
            return
        self._turn(running, phase=SlotPhase.UNLOADING, reason=reason, socket=None)
        task = running.task
        running.task = asyncio.create_task(self._unload(running, task), name=f"unload {key.arm[:12]}")

    def replace(self, key: SlotKey, reason: str) -> None:
        """Kill a process that doesn't answer any more; it is started again at once."""
        running = self._running.get(key)
        if running is None or not running.slot.ready or running.process is None or running.lost:
            return
        running.lost = reason
        log.warning("engine %s of %s is replaced: %s", running.slot.spec.version, key.deployment, reason)
        running.killing = asyncio.create_task(running.process.kill(), name=f"kill {running.process.pid}")

    async def probe(self, key: SlotKey, infer: bool) -> None:
        """Ask a ready engine for a sign of life, or for a real inference of a made-up row; replace it
        when none comes."""
        slot = self._running[key].slot if key in self._running else None
        if slot is None or not slot.ready or slot.socket is None:
            return
        try:
            client = await EngineClient.connect(slot.socket)
            try:
                if infer:
                    await client.warm(1, timeout_s=PROBE_TIMEOUT_S)
                else:
                    await client.ping(timeout_s=PROBE_TIMEOUT_S)
            finally:
                client.close()
        except EngineError as error:
            self.replace(key, f"it gave no sign of life: {error}")

    async def close(self, grace_s: float) -> None:
        """End all processes, those that run something after at most `grace_s`."""
        for key in list(self._running):
            self.stop(key, "the node stops")
        tasks = [running.task for running in self._running.values() if running.task]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s + 6)
        for running in list(self._running.values()):
            if running.process is not None and running.process.running:
                await running.process.kill()

    async def _live(self, running: _Running, engine: EngineRef) -> None:
        """One process from its start to its end."""
        for blob in blobs(running.slot.spec):
            try:
                if await asyncio.to_thread(file_digest, self._state.engine(blob.digest)) != blob.digest:
                    raise OSError("the bytes on disk changed")
            except OSError as error:
                log.warning("%s on disk is damaged, it is fetched again: %s", blob.digest, error)
                self._running.pop(running.slot.key, None)
                self._damaged(blob.digest)
                self._changed()
                return
        try:
            await self._load(running, engine)
        except (EngineStartFailed, OSError) as error:
            self._failed(running, engine, error)
            return
        assert running.process is not None
        code = await running.process.wait()
        told = f"{running.lost}; " if running.lost else ""
        self._crashed(running, f"{told}its process ended with {_name(code)}")

    async def _load(self, running: _Running, engine: EngineRef) -> None:
        slot = running.slot
        rows = slot.spec.contract.batch.max_rows if engine.batchable else 1
        order = EngineOrder(
            engine=self._state.engine(engine.digest),
            target=engine.target,
            socket=self._state.run / f"e{next(self._numbers)}.sock",
            threads=self._threads,
            warm_rows=rows,
            log=self._log(engine.digest),
        )
        self._turn(running, phase=SlotPhase.LOADING, reason="")
        process = running.process = await EngineProcess.spawn(order)
        info = await process.ready(report=lambda part: self._part(running, part))
        running.ready_at = time.monotonic()
        log.info("engine %s of %s is ready, pid %d", slot.spec.version, slot.key.deployment, process.pid)
        self._turn(
            running,
            phase=SlotPhase.READY,
            socket=str(order.socket),
            load_ms=info.load_ms,
            memory_bytes=info.rss_bytes,
        )

    def _log(self, digest: str) -> Path:
        """Output of the engine's processes; begun anew when it has grown large."""
        path = self._state.logs / f"{digest[:19]}.log"
        with contextlib.suppress(OSError):
            if path.stat().st_size > MIB:
                path.unlink()
        return path

    def _part(self, running: _Running, part: str) -> None:
        phase = SlotPhase.WARMING if part == "warm_up" else SlotPhase.LOADING
        if running.slot.phase is not phase:
            self._turn(running, phase=phase)

    def _failed(self, running: _Running, engine: EngineRef, error: EngineStartFailed | OSError) -> None:
        """A file that the runtime refuses is bad for good; a process that was killed gets another try."""
        if running.slot.phase is SlotPhase.UNLOADING:
            return
        kind = error.kind if isinstance(error, EngineStartFailed) else "system"
        if kind in ("died", "timeout", "system") and running.crashes < TRIES:
            self._crashed(running, f"loading failed: {error}")
            return
        self._running.pop(running.slot.key, None)
        self._bad(engine.digest, f"loading failed ({kind}): {error}"[:1000])
        self._changed()

    def _crashed(self, running: _Running, reason: str) -> None:
        if running.slot.phase is SlotPhase.UNLOADING:
            return
        now = time.monotonic()
        if running.ready_at is not None and now - running.ready_at > CALM_S:
            running.crashes = 0
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 4**running.crashes) if running.crashes else 0.0
        running.crashes += 1
        running.process = None
        text = f"{reason}; restart {running.crashes} in {pause:.1f} s"[:1000]
        log.warning("engine %s of %s: %s", running.slot.spec.version, running.slot.key.deployment, text)
        self._turn(running, phase=SlotPhase.FAILED, reason=text, socket=None, retry_at=now + pause)

    async def _unload(self, running: _Running, living: asyncio.Task[None] | None) -> None:
        if running.process is not None:
            await running.process.stop()
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        if running.process is not None and running.process.running:
            await running.process.kill()
        self._running.pop(running.slot.key, None)
        self._changed()

    def _turn(self, running: _Running, **change: object) -> None:
        if running.slot.phase is SlotPhase.UNLOADING:
            return
        running.slot = replace(running.slot, **change)  # type: ignore[arg-type]
        self._changed()


def _name(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
