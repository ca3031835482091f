"""Stages of a version: draft while files arrive, verified in the background, then sealed for ever."""

from enum import StrEnum

from registry.contract.versions import VersionStage as Stage
from registry.lifecycle.moves import MoveTable


class VersionEvent(StrEnum):
    SEAL = "seal"
    VERIFIED = "verified"
    MISMATCHED = "mismatched"
    ARCHIVE = "archive"
    QUARANTINE = "quarantine"


VERSION_MOVES = MoveTable(
    Stage,
    VersionEvent,
    {
        Stage.DRAFT: {VersionEvent.SEAL: Stage.VERIFYING, VersionEvent.ARCHIVE: Stage.ARCHIVED},
        Stage.VERIFYING: {
            VersionEvent.VERIFIED: Stage.READY,
            VersionEvent.MISMATCHED: Stage.REJECTED,
        },
        Stage.READY: {
            VersionEvent.ARCHIVE: Stage.ARCHIVED,
            VersionEvent.QUARANTINE: Stage.QUARANTINED,
        },
        Stage.ARCHIVED: {VersionEvent.QUARANTINE: Stage.QUARANTINED},
    },
)
