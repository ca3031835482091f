"""Memory of this process, as the kernel counts it."""

import ctypes
import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


class Growth:
    """What a process has grown by at most: measured from when this was made, at every call."""

    def __init__(self) -> None:
        self._before = resident_bytes()
        self._most = 0

    def most(self, *, measure: bool) -> int:
        """Bytes. Without `measure`, as it was: what is freed belongs to nobody any more."""
        if measure:
            self._most = max(self._most, resident_bytes() - self._before)
        return self._most


def give_back_free_memory() -> None:
    """Asks glibc to return what was freed; other C libraries return it by themselves."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
