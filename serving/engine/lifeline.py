"""An engine process doesn't outlive the process that started it."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


class Orphaned(Exception):
    """The parent was gone before this process could ask to be told of its death."""


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when its parent's starting thread ends. Raises Orphaned."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        raise Orphaned(f"the parent {parent} is gone")
