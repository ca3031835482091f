"""Phases of a task. A claim on an expired lease is a move too: the fence has grown by then."""

from enum import StrEnum

from registry.contract.tasks import TaskPhase as Phase
from registry.lifecycle.moves import MoveTable

MAX_ATTEMPTS = 3
LEASE_S = 30.0


class TaskEvent(StrEnum):
    CLAIM = "claim"
    FINISH = "finish"
    FAIL = "fail"
    EXHAUST = "exhaust"
    CANCEL = "cancel"


TASK_MOVES = MoveTable(
    Phase,
    TaskEvent,
    {
        Phase.QUEUED: {TaskEvent.CLAIM: Phase.LEASED, TaskEvent.CANCEL: Phase.CANCELLED},
        Phase.LEASED: {
            TaskEvent.CLAIM: Phase.LEASED,
            TaskEvent.FINISH: Phase.DONE,
            TaskEvent.FAIL: Phase.FAILED,
            TaskEvent.EXHAUST: Phase.FAILED,
            TaskEvent.CANCEL: Phase.CANCELLED,
        },
    },
    inner=frozenset({TaskEvent.EXHAUST}),
)
