"""Phases of a build."""

from enum import StrEnum

from registry.contract.builds import BuildPhase as Phase
from registry.lifecycle.moves import MoveTable


class BuildEvent(StrEnum):
    START = "start"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    RETRY = "retry"


BUILD_MOVES = MoveTable(
    Phase,
    BuildEvent,
    {
        Phase.QUEUED: {BuildEvent.START: Phase.RUNNING, BuildEvent.CANCEL: Phase.CANCELLED},
        Phase.RUNNING: {
            BuildEvent.START: Phase.RUNNING,
            BuildEvent.FINISH: Phase.COMPLETED,
            BuildEvent.FAIL: Phase.FAILED,
            BuildEvent.CANCEL: Phase.CANCELLED,
        },
        Phase.FAILED: {BuildEvent.RETRY: Phase.QUEUED},
        Phase.CANCELLED: {BuildEvent.RETRY: Phase.QUEUED},
    },
    inner=frozenset({BuildEvent.START, BuildEvent.FINISH, BuildEvent.FAIL}),
)
