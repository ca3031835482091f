"""Stops a launcher's processes when the launcher dies without being able to (kill -9, a crash, SIGTERM).

A small process of its own, started once per launcher with the write end of a pipe in the launcher's hands:
when the pipe closes, the launcher is gone. The kernel's own parent-death signal won't do: it fires when the
*thread* that started the process ends, and it is lost on a change of user.

Run as a plain script (`python -I -S reaper.py`), it imports only the standard library and starts in 30 ms.
Input, one line per process: `PID START_TICKS SIGNAL_NUMBER`. A process that ended by then is skipped.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

_GRACE_S = 8.0
_POLL_S = 0.05


class Reaper:
    """The launcher's end: tell it of every process as soon as it runs; `close` when all are stopped."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The reaper's process id."""
        return self._process.pid

    def watch(self, pid: int, ticks: int, stop_signal: signal.Signals) -> None:
        """From now on `pid` (started at `ticks`) is stopped with `stop_signal` if this process dies."""
        if self._process.stdin is None:
            raise ValueError("the reaper was started without its pipe")
        # A reaper that was killed itself costs the safety net, not the service.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{pid} {ticks} {int(stop_signal)}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """Lets the reaper finish: whatever it was told of and still runs is stopped now."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None when it has ended (a zombie has)."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123  pathlib costs half the start
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _read_until_parent_ends() -> list[tuple[int, int, int]]:
    parent = os.getppid()
    text = b""
    # A forked copy of the launcher may hold the pipe open, so the parent is watched too.
    while os.getppid() == parent:
        if select.select([0], [], [], 1.0)[0]:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            text += chunk
    whole = text.decode().splitlines() if text.endswith(b"\n") else text.decode().splitlines()[:-1]
    return [(int(pid), int(ticks), int(number)) for pid, ticks, number in (line.split() for line in whole)]


def main() -> None:
    """Waits for the launcher's end, then stops what it left: politely, and after 8 s by SIGKILL."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    left = [entry for entry in _read_until_parent_ends() if start_ticks(entry[0]) == entry[1]]
    for pid, _, number in left:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + _GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [entry for entry in left if start_ticks(entry[0]) == entry[1]]
    for pid, _, _ in left:
        _signal_group(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
