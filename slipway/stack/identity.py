"""A process named so that a reused process id is never mistaken for it: pid, start time, boot."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slipway.stack.reaper import start_ticks

_POLL_S = 0.02


@dataclass(frozen=True)
class ProcessIdentity:
    """`ticks`: start time in clock ticks since boot (proc(5), field 22); `boot`: the kernel's boot id."""

    pid: int
    ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """The identity of a running process, or None when it has ended."""
        ticks = start_ticks(pid)
        return None if ticks is None else cls(pid, ticks, boot_id())

    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return self.boot == boot_id() and start_ticks(self.pid) == self.ticks

    def send(self, number: signal.Signals) -> None:
        """Signals the process when it still is this one."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def boot_id() -> str:
    """Identifies this boot of the machine; process ids and start ticks mean nothing beyond it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stop_all(found: Iterable[tuple[ProcessIdentity, signal.Signals]], grace_s: float) -> None:
    """Asks each process to stop with its signal, waits up to `grace_s` seconds, then kills the rest."""
    waiting = [(identity, number) for identity, number in found if identity.alive()]
    for identity, number in waiting:
        identity.send(number)
    deadline = time.monotonic() + grace_s
    while waiting and time.monotonic() < deadline:
        waiting = [(identity, number) for identity, number in waiting if identity.alive()]
        time.sleep(_POLL_S if waiting else 0)
    for identity, _ in waiting:
        identity.send(signal.SIGKILL)
    while any(identity.alive() for identity, _ in waiting):
        time.sleep(_POLL_S)
