"""What the launcher runs, and what it says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True)
class ChildSpec:
    """A process to run. `env` is added to the launcher's environment for children.

    `ready_url`: answers 200 once the process works; None: ready when it has run for half a second.
    `names_itself`: that answer's header `x-slipway-process` is the process's number. An answer of another
    process, which has the port already, then counts for nothing.
    `stop_grace_s`: seconds from SIGTERM to SIGKILL. `outlives_others`: stopped after the rest, which may
    still call it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_url: str | None = None
    names_itself: bool = False
    stop_grace_s: float = 20.0
    outlives_others: bool = False


class ChildPhase(StrEnum):
    """`waiting`: it crashed and is started again after a pause."""

    STOPPED = "stopped"
    RUNNING = "running"
    WAITING = "waiting"


@dataclass(frozen=True)
class ChildStatus:
    """`restarts`: after crashes only. `exit_code`: of the last end; negative: the signal's number."""

    name: str
    phase: ChildPhase
    pid: int | None
    restarts: int
    exit_code: int | None
    log: Path


class ChildFailed(Exception):
    """A process was not ready in time, or keeps ending; the message has the end of its log."""
