"""What may be said of a node, from its newest report and that report's age. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from registry.contract.nodes import DeploymentReport, Report, SlotPhase, SlotReport
from registry.nodes.ledger import DUPLICATE_FROM
from registry.tables.nodes import NodeRow

NodeState = Literal["ready", "preparing", "draining", "unknown", "duplicate"]

UNDER_WAY = (SlotPhase.FETCHING, SlotPhase.VERIFYING, SlotPhase.LOADING, SlotPhase.WARMING)


@dataclass(frozen=True)
class Seen:
    """A node as it last reported. Where it is not `fresh`, all of it is history."""

    row: NodeRow
    report: Report | None
    fresh: bool

    @property
    def duplicate(self) -> bool:
        """Two agents take turns under this identity."""
        return self.fresh and self.row.incarnation_changes >= DUPLICATE_FROM

    def deployment(self, ref: str) -> DeploymentReport | None:
        found = self.report.deployments if self.report else ()
        return next((each for each in found if each.deployment == ref), None)

    def slots(self, ref: str) -> tuple[SlotReport, ...]:
        return tuple(each for each in self.report.slots if each.deployment == ref) if self.report else ()

    @property
    def state(self) -> NodeState:
        """A report that is old makes everything unknown, never green."""
        if not self.fresh or self.report is None:
            return "unknown"
        if self.duplicate:
            return "duplicate"
        if self.row.draining:
            return "draining"
        loading = any(slot.phase in UNDER_WAY for slot in self.report.slots)
        waiting = any(not each.ready for each in self.report.deployments)
        return "preparing" if loading or waiting else "ready"

    def published(self, ref: str, left_out: frozenset[str]) -> bool:
        """May requests be sent to it? Only where it can answer every arm of the deployment."""
        reported = self.deployment(ref)
        return (
            self.state in ("ready", "preparing")
            and self.row.id not in left_out
            and reported is not None
            and reported.ready
        )


def seen(row: NodeRow, now: datetime, stale_s: float) -> Seen:
    """`now` is the database's clock, as `reported_at` is."""
    fresh = row.reported_at is not None and now - row.reported_at < timedelta(seconds=stale_s)
    return Seen(row, Report.model_validate(row.report) if row.report else None, fresh)
