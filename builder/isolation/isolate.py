"""One command in a process group of its own, with limits of time and memory. A crash stays in there.

The limits are set from outside (`prlimit`), so nothing of ours runs between fork and exec, and the
command may be anything. Memory is watched as resident bytes of the whole group; the address space limit
only stops a single allocation that is out of all proportion.
"""

import codecs
import contextlib
import functools
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

MIB = 1 << 20
# Thread stacks, mapped libraries and allocator arenas count as address space without ever being used.
ADDRESS_ALLOWANCE = 8192 * MIB
SHORTEST_POLL_S = 0.005
LONGEST_POLL_S = 0.1


class Ending(StrEnum):
    OK = "ok"
    FAILED = "failed"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code` is the exit code, negative for a signal. `reason` is empty when all went well."""

    ending: Ending
    code: int
    duration_s: float
    peak_memory_bytes: int
    reason: str = ""


def run(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    limits: Limits,
    environment: Mapping[str, str],
    heard: Callable[[str], None],
    stop: threading.Event,
    walled: bool = False,
) -> Outcome:
    """Runs `command` in `folder` until it ends, a limit is met or `stop` is set; then its group is gone.

    `walled`: the command builds its own walls (`sandbox.prefix` beside this), which end the network too. Its
    output goes to the file `log` and, as it comes, to `heard`. Raises OSError when it can't be started.
    """
    began = time.monotonic()
    with log.open("wb") as sink:
        child = subprocess.Popen(
            [*(() if walled else _network_off()), *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _limit(child.pid, limits.memory_bytes)
        with log.open("rb") as source:
            return _watch(child, _Echo(source.read, heard), limits, began, stop)
    finally:
        _kill_group(child)


class _Echo:
    """Hands on what was written since the last call; a character is never cut in two."""

    def __init__(self, read: Callable[[], bytes], heard: Callable[[str], None]) -> None:
        self._read = read
        self._heard = heard
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __call__(self, final: bool = False) -> None:
        text = self._decoder.decode(self._read(), final)
        if text:
            self._heard(text)


def _watch(
    child: subprocess.Popen[bytes], echo: _Echo, limits: Limits, began: float, stop: threading.Event
) -> Outcome:
    peak = 0
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pause = SHORTEST_POLL_S
    while True:
        over, peak = _over_limit(child, limits, began, peak, stop)
        if over is not None:
            _kill_group(child)
            echo(final=True)
            ending, reason = over
            return Outcome(ending, -signal.SIGKILL, time.monotonic() - began, peak, reason)
        found, status, usage = os.wait4(child.pid, os.WNOHANG)
        if found:
            child.returncode = os.waitstatus_to_exitcode(status)
            echo(final=True)
            ending, reason = _how_it_ended(child.returncode)
            # A child that is started by vfork begins with its parent's size: only more than that is its own.
            own = usage.ru_maxrss * 1024
            peak = max(peak, own) if own > inherited else peak
            return Outcome(ending, child.returncode, time.monotonic() - began, peak, reason)
        echo()
        stop.wait(pause)
        pause = min(LONGEST_POLL_S, pause * 1.5)


def _over_limit(
    child: subprocess.Popen[bytes], limits: Limits, began: float, peak: int, stop: threading.Event
) -> tuple[tuple[Ending, str] | None, int]:
    resident = _resident(child.pid)
    peak = max(peak, resident)
    if stop.is_set():
        return (Ending.STOPPED, "stopped: the work is no longer this worker's"), peak
    if resident > limits.memory_bytes:
        return (
            Ending.OUT_OF_MEMORY,
            f"needed more than its {limits.memory_bytes // MIB} MiB of memory; raise limits.step_memory_mib "
            "of the recipe, or take a smaller model or smaller batches",
        ), peak
    if time.monotonic() - began > limits.timeout_s:
        return (
            Ending.TIMED_OUT,
            f"took longer than its {limits.timeout_s:g} s; raise limits.step_timeout_s of the recipe, "
            "or give it less to do",
        ), peak
    return None, peak


def _how_it_ended(code: int) -> tuple[Ending, str]:
    if code == 0:
        return Ending.OK, ""
    if code > 0:
        return Ending.FAILED, f"ended with exit code {code}"
    name = signal.Signals(-code).name
    if code == -signal.SIGKILL:
        return (
            Ending.OUT_OF_MEMORY,
            f"was killed ({name}), most likely because this machine ran out of memory",
        )
    return Ending.CRASHED, f"crashed ({name}) inside a library; its log shows how far it came"


def _resident(pid: int) -> int:
    """Resident bytes of a process and all below it; what ends meanwhile counts as nothing."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += int(one.memory_info().rss)
    return total


def _limit(pid: int, memory_bytes: int) -> None:
    address_space = memory_bytes + ADDRESS_ALLOWANCE
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (address_space, address_space))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Also after a regular end: what the command left running has nobody to answer to."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.returncode is None:
        child.wait()


@functools.cache
def _network_off() -> tuple[str, ...]:
    """A prefix that takes the network away, where this machine lets us."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    prefix = (unshare, "--user", "--map-current-user", "--net", "--")
    probe = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if probe.returncode == 0 else ()
