"""What happened to a deployment, newest first: releases with their steps, and rollbacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.contract.releases import Receipt, Release, ReleasePhase, StepChange
from web.views.naming import Names
from web.views.words import percent

LEVELS = {
    ReleasePhase.COMPLETED: ("✔", "good"),
    ReleasePhase.ROLLED_BACK: ("↩", "warn"),
    ReleasePhase.ROLLING_BACK: ("↩", "bad"),
    ReleasePhase.FAILED: ("✖", "bad"),
    ReleasePhase.ABORTED: ("○", "none"),
    ReleasePhase.SUPERSEDED: ("○", "none"),
}
UNDER_WAY = ("◐", "busy")


@dataclass(frozen=True, slots=True)
class Change:
    at: datetime
    what: str
    share: str
    actor: str
    by_command: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Past:
    """One release or one rollback of the history. `receipt`: where a rollback's receipt is."""

    at: datetime
    title: str
    glyph: str
    word: str
    level: str
    actor: str
    reason: str
    changes: tuple[Change, ...] = ()
    receipt: str = ""


def history(releases: Sequence[Release], receipts: Sequence[Receipt], names: Names) -> tuple[Past, ...]:
    entries = [_release(each, names) for each in releases] + [_rollback(each, names) for each in receipts]
    return tuple(sorted(entries, key=lambda past: past.at, reverse=True))


def _release(release: Release, names: Names) -> Past:
    glyph, level = LEVELS.get(release.phase, UNDER_WAY)
    origin = f" from {names(release.from_arm)}" if release.from_arm else ", the first version"
    return Past(
        release.created_at,
        f"Release {release.number}: {names(release.arm)}{origin}",
        glyph,
        release.phase.replace("_", " "),
        level,
        release.created_by,
        release.reason,
        tuple(_change(entry) for entry in reversed(release.history)),
    )


def _change(entry: StepChange) -> Change:
    what = f"{entry.phase.replace('_', ' ')}{f' ({entry.hold})' if entry.hold else ''}"
    share = percent(entry.share) if entry.step >= 0 else "–"
    return Change(entry.at, what, share, entry.actor, entry.by_command, entry.reason)


def _rollback(receipt: Receipt, names: Names) -> Past:
    done = sum(node.state == "drained" for node in receipt.nodes)
    return Past(
        receipt.asked_at,
        f"Rollback to {names(receipt.to_arm)}",
        "↩",
        f"{done} of {len(receipt.nodes)} nodes confirmed",
        "warn" if receipt.final else "bad",
        f"{receipt.asked_by}, automatically" if receipt.automatic else receipt.asked_by,
        receipt.reason,
        receipt=receipt.id,
    )
