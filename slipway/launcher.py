"""Starts processes from a list, watches them, restarts what crashes, stops all cleanly.

`slipway up` runs it in the foreground (`run`); the demo and tests drive it as a library (`with Launcher(…)`).
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import httpx

from slipway.children import ChildFailed, ChildPhase, ChildSpec, ChildStatus
from slipway.stack.errors import StackError
from slipway.stack.log import rotate, tail
from slipway.stack.process import Child, Command, pause_until
from slipway.stack.reaper import Reaper

_TICK_S = 0.1
_TEND_EVERY_S = 1.0
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
# A process that ran for so long before it crashed gets the shortest pause again.
_STEADY_AFTER_S = 30.0
# Without an address to ask, what has run for so long is taken to work.
_SETTLED_AFTER_S = 0.5
_HOPELESS_CRASHES = 3
# What a process ends with where a setting is wrong: it would end the same way again.
_WRONG_SETTING = os.EX_CONFIG
_READY_WITHIN_S = 60.0
_PROBE_TIMEOUT_S = 2.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _StopAsked(Exception):
    """A signal asked the launcher to stop while it was waiting for a child."""


@dataclass
class _Entry:
    """Times in monotonic seconds; `restart_at` is set while a crashed child waits."""

    spec: ChildSpec
    wanted: bool = False
    child: Child | None = None
    started_at: float = 0.0
    restart_at: float | None = None
    backoff_s: float = _FIRST_BACKOFF_S
    restarts: int = 0
    exit_code: int | None = None

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive

    def ready(self) -> bool:
        child = self.child
        if child is None or not child.alive:
            return False
        if self.spec.ready_url is None:
            return time.monotonic() - self.started_at >= _SETTLED_AFTER_S
        return _answers(self.spec.ready_url, child.pid if self.spec.names_itself else None)


class Launcher:
    """Children by name, in the order of `specs`.

    `environment`: the whole environment of children. `log_dir`: NAME.log for each, capped in size. `tend`:
    called about once a second (the stack restarts its servers there); a StackError of it is announced.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        log_dir: Path,
        environment: Mapping[str, str] | None = None,
        tend: Callable[[], object] | None = None,
        announce: Callable[[str], None] = print,
    ) -> None:
        self._entries = {spec.name: _Entry(spec) for spec in specs}
        if len(self._entries) != len(specs):
            raise ValueError("two children have the same name")
        self._log_dir = log_dir
        self._environment = dict(os.environ if environment is None else environment)
        self._tend = tend
        self._announce = announce
        self._guard = threading.RLock()
        self._over = threading.Event()
        self._asked = threading.Event()
        self._reaper: Reaper | None = None
        self._supervisor: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begins supervision; starts nothing yet."""
        self._over.clear()
        self._reaper = Reaper()
        self._supervisor = threading.Thread(target=self._supervise, name="launcher", daemon=True)
        self._supervisor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops every child, then supervision."""
        self.stop_all()
        self._over.set()
        if self._supervisor is not None:
            self._supervisor.join()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None

    def start(self, name: str) -> int:
        """Starts a child (nothing when it runs) and gives its process id."""
        with self._guard:
            entry = self._entries[name]
            entry.wanted = True
            if entry.child is not None and entry.child.alive:
                return entry.child.pid
            return self._spawn(entry)

    def start_all(self) -> None:
        """Starts every child, in order, each when the one before is ready."""
        for name in self._entries:
            self.start(name)
            self.wait_ready(name)

    def wait_ready(self, name: str, timeout_s: float = _READY_WITHIN_S) -> None:
        """Returns when the child works; raises ChildFailed after `timeout_s` seconds or repeated crashes."""
        entry = self._entries[name]
        crashes_before = entry.restarts
        deadline = time.monotonic() + timeout_s
        while not entry.ready():
            if self._asked.is_set():
                raise _StopAsked
            log = self.log(name)
            if entry.exit_code == _WRONG_SETTING and not entry.alive:
                raise ChildFailed(f"{name} has a wrong setting. Its log {log} says:\n{tail(log)}")
            if not entry.wanted:
                raise ChildFailed(f"{name} is stopped. Start it first. Its log: {log}")
            if entry.restarts - crashes_before >= _HOPELESS_CRASHES:
                raise ChildFailed(
                    f"{name} keeps ending, last with exit code {entry.exit_code}. "
                    f"Its log {log} says:\n{tail(log)}"
                )
            if not pause_until(deadline, _TICK_S):
                raise ChildFailed(
                    f"{name} was not ready within {timeout_s:g} s. Its log {log} says:\n{tail(log)}"
                )

    def kill(self, name: str, *, restart: bool = True) -> None:
        """kill -9 of a child and its process group; `restart`: supervision brings it back after a pause."""
        with self._guard:
            entry = self._entries[name]
            entry.wanted = restart
            if entry.child is not None:
                entry.exit_code = entry.child.kill()

    def stop(self, name: str) -> None:
        """Stops a child by SIGTERM (SIGKILL after its grace) and leaves it stopped."""
        with self._guard:
            entry = self._entries[name]
            entry.wanted = False
            entry.restart_at = None
            child = entry.child
        if child is not None:
            entry.exit_code = child.stop(entry.spec.stop_grace_s)

    def stop_all(self) -> None:
        """Stops all children at once, and after them those that outlive others."""
        for last in (False, True):
            names = [name for name, entry in self._entries.items() if entry.spec.outlives_others == last]
            if names:
                with ThreadPoolExecutor(len(names)) as pool:
                    list(pool.map(self.stop, names))

    def pid(self, name: str) -> int:
        """The process id of a child that runs; ValueError otherwise."""
        child = self._entries[name].child
        if child is None or not child.alive:
            raise ValueError(f"{name} is not running")
        return child.pid

    def log(self, name: str) -> Path:
        """The log file of a child."""
        return self._log_dir / f"{name}.log"

    def status(self) -> tuple[ChildStatus, ...]:
        """Every child as it is now."""
        with self._guard:
            return tuple(self._status(name, entry) for name, entry in self._entries.items())

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Starts all, calls `ready`, and stays until SIGINT, SIGTERM or SIGHUP; then stops all.

        Raises ChildFailed (after stopping the rest) when a child can't be started. A second signal kills what
        is still stopping. Main thread only.
        """
        self._asked.clear()
        with self._signals(), self:
            try:
                self.start_all()
                ready()
                self._asked.wait()
            except _StopAsked:
                pass
            self._announce("stopping …")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def on_signal(_number: int, _frame: FrameType | None) -> None:
            if self._asked.is_set():
                self._kill_all()
            self._asked.set()

        before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _kill_all(self) -> None:
        for name in self._entries:
            self.kill(name, restart=False)

    def _spawn(self, entry: _Entry) -> int:
        if self._reaper is None:
            raise ValueError("supervision has not begun: use `with launcher:` or `launcher.run()`")
        command = Command(
            name=entry.spec.name,
            argv=entry.spec.argv,
            log=self.log(entry.spec.name),
            cwd=Path.cwd(),
            env={**self._environment, "PYTHONUNBUFFERED": "1", **entry.spec.env},
        )
        entry.child = Child(command, self._reaper)
        entry.started_at = time.monotonic()
        entry.restart_at = None
        return entry.child.pid

    def _supervise(self) -> None:
        tended_at = time.monotonic()
        while not self._over.wait(_TICK_S):
            for entry in self._entries.values():
                with self._guard:
                    self._revive(entry)
            if time.monotonic() - tended_at >= _TEND_EVERY_S:
                for name in self._entries:
                    rotate(self.log(name))
                self._tend_quietly()
                tended_at = time.monotonic()

    def _revive(self, entry: _Entry) -> None:
        """Counts a crash once, and starts the child again when its pause is over."""
        now = time.monotonic()
        if not entry.wanted or entry.child is None or entry.child.alive:
            return
        if entry.restart_at is None:
            entry.exit_code = entry.child.exit_code
            if entry.exit_code == _WRONG_SETTING:
                entry.wanted = False
                log = self.log(entry.spec.name)
                self._announce(f"{entry.spec.name} has a wrong setting and stays down (log: {log})")
                return
            if now - entry.started_at >= _STEADY_AFTER_S:
                entry.backoff_s = _FIRST_BACKOFF_S
            entry.restart_at = now + entry.backoff_s
            entry.restarts += 1
            self._announce(
                f"{entry.spec.name} ended with exit code {entry.exit_code}; again in {entry.backoff_s:g} s "
                f"(log: {self.log(entry.spec.name)})"
            )
            entry.backoff_s = min(entry.backoff_s * 2, _LONGEST_BACKOFF_S)
        elif now >= entry.restart_at:
            try:
                self._spawn(entry)
            except StackError as error:
                self._announce(str(error))
                entry.restart_at = now + entry.backoff_s

    def _tend_quietly(self) -> None:
        if self._tend is None:
            return
        try:
            self._tend()
        except StackError as error:
            self._announce(str(error))

    def _status(self, name: str, entry: _Entry) -> ChildStatus:
        pid = entry.child.pid if entry.child is not None and entry.child.alive else None
        if pid is not None:
            phase = ChildPhase.RUNNING
        else:
            phase = ChildPhase.WAITING if entry.wanted else ChildPhase.STOPPED
        return ChildStatus(name, phase, pid, entry.restarts, entry.exit_code, self.log(name))


def _answers(url: str, process: int | None) -> bool:
    """`process`: the only one whose answer counts."""
    try:
        # Never through a proxy of the person's environment: the address is on this machine.
        answer = httpx.get(url, timeout=_PROBE_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError:
        return False
    ours = process is None or answer.headers.get("x-slipway-process") == str(process)
    return ours and answer.status_code == httpx.codes.OK
