"""Phases of a release.

Every phase that is not an end, and `completed` too, can be left by `roll_back`. `abort` is the same
transaction without the pin. A step forward is an event that stays in `running`.
"""

from enum import StrEnum

from registry.contract.releases import ReleasePhase as Phase
from registry.lifecycle.moves import MoveTable


class ReleaseEvent(StrEnum):
    SUBMIT = "submit"
    START = "start"
    PREPARED = "prepared"
    STEP = "step"
    LAST_STEP = "last_step"
    CONVERGED = "converged"
    ROLL_BACK = "roll_back"
    RETURNED = "returned"
    ABORT = "abort"
    REJECT = "reject"
    SUPERSEDE = "supersede"
    FAIL = "fail"


_OUT = {
    ReleaseEvent.ROLL_BACK: Phase.ROLLING_BACK,
    ReleaseEvent.ABORT: Phase.ABORTED,
    ReleaseEvent.SUPERSEDE: Phase.SUPERSEDED,
    ReleaseEvent.FAIL: Phase.FAILED,
}

RELEASE_MOVES = MoveTable(
    Phase,
    ReleaseEvent,
    {
        Phase.DRAFT: {
            ReleaseEvent.SUBMIT: Phase.AWAITING_APPROVAL,
            ReleaseEvent.START: Phase.PREPARING,
            **_OUT,
        },
        Phase.AWAITING_APPROVAL: {
            ReleaseEvent.START: Phase.PREPARING,
            ReleaseEvent.REJECT: Phase.ABORTED,
            **_OUT,
        },
        Phase.PREPARING: {ReleaseEvent.PREPARED: Phase.RUNNING, **_OUT},
        Phase.RUNNING: {
            ReleaseEvent.STEP: Phase.RUNNING,
            ReleaseEvent.LAST_STEP: Phase.COMPLETING,
            **_OUT,
        },
        Phase.COMPLETING: {ReleaseEvent.CONVERGED: Phase.COMPLETED, **_OUT},
        Phase.COMPLETED: {ReleaseEvent.ROLL_BACK: Phase.ROLLING_BACK},
        Phase.ROLLING_BACK: {ReleaseEvent.RETURNED: Phase.ROLLED_BACK},
    },
    inner=frozenset(
        {
            ReleaseEvent.SUBMIT,
            ReleaseEvent.START,
            ReleaseEvent.PREPARED,
            ReleaseEvent.CONVERGED,
            ReleaseEvent.RETURNED,
            ReleaseEvent.FAIL,
        }
    ),
    words={ReleaseEvent.STEP: "advance", ReleaseEvent.LAST_STEP: "advance"},
)

# One of these at a time per deployment. A release that is being rolled back is over as far as the next
# one is concerned: the pin keeps it from starting, not this set.
ACTIVE_PHASES = frozenset(
    {Phase.DRAFT, Phase.AWAITING_APPROVAL, Phase.PREPARING, Phase.RUNNING, Phase.COMPLETING}
)
