"""Absolute deadlines: one per request, from its header within bounds, and one sweep for all of them.

A timer per request costs more than a request's whole routing; so works lie in slots of 10 ms, and one timer
runs while there is any.
"""

import asyncio
import time

from serving.gateway.work import Work
from serving.runtimes.errors import InputError

TICK_S = 0.01
HEADER = b"x-request-timeout-ms"


def time_allowed(header: bytes | None, default_s: float, longest_s: float) -> float:
    """Seconds that a request has. A longer wish is cut to the longest. Raises InputError."""
    if header is None:
        return default_s
    try:
        wanted_ms = int(header)
    except ValueError:
        wanted_ms = 0
    if wanted_ms < 1:
        raise InputError(
            "header x-request-timeout-ms",
            wanted="a whole number of milliseconds, at least 1",
            got=repr(header[:40].decode("latin-1")),
            mend=f"send for example 500, or leave it out for {default_s:g} s",
        )
    # Whole numbers have no largest one, fractions do.
    return longest_s if wanted_ms >= longest_s * 1000 else wanted_ms / 1000


class DeadlineSweep:
    """Ends each watched work when its deadline is over, up to TICK_S late."""

    def __init__(self) -> None:
        self._slots: dict[int, set[Work]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._swept = 0

    def watch(self, work: Work) -> None:
        slot = int(work.deadline / TICK_S) + 1
        works = self._slots.get(slot)
        if works is None:
            self._slots[slot] = {work}
            if self._timer is None:
                self._swept = int(time.monotonic() / TICK_S) - 1
                self._arm()
        else:
            works.add(work)

    def forget(self, work: Work) -> None:
        slot = int(work.deadline / TICK_S) + 1
        works = self._slots.get(slot)
        if works is not None:
            works.discard(work)
            if not works:
                del self._slots[slot]

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._sweep)

    def _sweep(self) -> None:
        now = int(time.monotonic() / TICK_S)
        if now - self._swept > len(self._slots):
            due = [slot for slot in self._slots if slot <= now]
        else:
            due = [slot for slot in range(self._swept + 1, now + 1) if slot in self._slots]
        for slot in due:
            for work in self._slots.pop(slot, set()):
                work.expire()
        self._swept = now
        if self._slots:
            self._arm()
        else:
            self._timer = None
