"""A full disk, told in words: where a step writes, or the worker itself."""

import errno
import shutil
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
# Less than this is full: a file system keeps some blocks to itself, and libraries hide what a write met.
LEAST_FREE_BYTES = 256 << 10


def is_full(folder: Path, error: BaseException | None = None) -> bool:
    """Whether `error` says that a disk is full, or the disk of `folder` is."""
    told = isinstance(error, OSError) and error.errno in FULL
    return told or shutil.disk_usage(folder).free < LEAST_FREE_BYTES


def sentence() -> str:
    return (
        "the disk of this worker is full (SLIPWAY_WORK_DIR); make room there, or lower SLIPWAY_CACHE_GIB, "
        "and retry the build: the steps that are done are kept"
    )
