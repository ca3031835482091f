"""Stages of a version: draft while files arrive, verified in the background, then sealed for ever."""

from enum import StrEnum

from registry.contract.versions import VersionStage as Stage
from registry.lifecycle.moves import MoveTable


class VersionEvent(StrEnum):
    SEAL = "seal"
    VERIFIED = "verified"
    MISMATCHED = "mismatched"
    FAILED = "failed"
    ARCHIVE = "archive"
    RESTORE = "restore"
    QUARANTINE = "quarantine"


VERSION_MOVES = MoveTable(
    Stage,
    VersionEvent,
    {
        # Failed: files that the registry itself was to fetch never came.
        Stage.DRAFT: {
            VersionEvent.SEAL: Stage.VERIFYING,
            VersionEvent.FAILED: Stage.REJECTED,
            VersionEvent.ARCHIVE: Stage.ARCHIVED,
        },
        Stage.VERIFYING: {
            VersionEvent.VERIFIED: Stage.READY,
            VersionEvent.MISMATCHED: Stage.REJECTED,
        },
        Stage.READY: {
            VersionEvent.ARCHIVE: Stage.ARCHIVED,
            VersionEvent.QUARANTINE: Stage.QUARANTINED,
        },
        # Not to ready at once: a draft may have been archived before its files were there.
        Stage.ARCHIVED: {
            VersionEvent.RESTORE: Stage.VERIFYING,
            VersionEvent.QUARANTINE: Stage.QUARANTINED,
        },
    },
    inner=frozenset({VersionEvent.VERIFIED, VersionEvent.MISMATCHED, VersionEvent.FAILED}),
)
