"""Log files of children: capped in size, with one earlier file kept beside each."""

import shutil
from pathlib import Path

CAP_BYTES = 8 * 1024 * 1024
_TAIL_LINES = 15
_TAIL_BYTES = 16_384


def rotate(log: Path, cap_bytes: int = CAP_BYTES) -> bool:
    """Moves the content of a log over `cap_bytes` to `NAME.1`; says whether it did.

    The file is copied and emptied in place, because its writer holds it open (for appending) and can't be
    asked to open another; lines written in between are lost, which a log can bear.
    """
    if not log.exists() or log.stat().st_size <= cap_bytes:
        return False
    shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def tail(log: Path) -> str:
    """The last lines of a log, for an error message; empty when there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
