"""Phases of an upload."""

from enum import StrEnum

from registry.contract.uploads import UploadPhase as Phase
from registry.lifecycle.moves import MoveTable


class UploadEvent(StrEnum):
    COMPLETE = "complete"
    VERIFIED = "verified"
    MISMATCHED = "mismatched"
    ABORT = "abort"


UPLOAD_MOVES = MoveTable(
    Phase,
    UploadEvent,
    {
        Phase.OPEN: {UploadEvent.COMPLETE: Phase.VERIFYING, UploadEvent.ABORT: Phase.ABORTED},
        Phase.VERIFYING: {
            UploadEvent.VERIFIED: Phase.VERIFIED,
            UploadEvent.MISMATCHED: Phase.REJECTED,
        },
    },
    inner=frozenset({UploadEvent.VERIFIED, UploadEvent.MISMATCHED}),
)
