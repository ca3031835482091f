"""Releases, their history and approvals, the controller's looks, and rollbacks."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, LargeBinary, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from registry.lifecycle.releases import ACTIVE_PHASES, RELEASE_MOVES
from registry.tables.base import Created, Phased, Row

_ACTIVE = ", ".join(f"'{phase}'" for phase in sorted(ACTIVE_PHASES))


class ReleaseRow(Created, Phased, Row):
    """`policy` is the deployment's at the start. `hold` says why a running release stands still.

    `controller`, `controller_until`, `controller_fence`: the lease of the controller that judges it.
    `trial`: what is compared, fixed at the first step; `evidence`: the judge's state between looks.
    `step` counts from 0; −1 before the first step.
    """

    __tablename__ = "releases"
    __table_args__ = (
        UniqueConstraint("deployment_id", "number"),
        Index(
            "uq_releases_one_active",
            "deployment_id",
            unique=True,
            postgresql_where=text(f"phase IN ({_ACTIVE})"),
        ),
        Index(None, "phase"),
        Index(None, "arm_id"),
    )
    moves = RELEASE_MOVES
    subject_kind = "release"

    id: Mapped[str] = mapped_column(primary_key=True)
    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id"))
    deployment: Mapped[str]
    number: Mapped[int]
    arm_id: Mapped[str] = mapped_column(ForeignKey("arms.id"))
    from_arm_id: Mapped[str | None] = mapped_column(ForeignKey("arms.id"))
    policy: Mapped[dict[str, Any]]
    plan: Mapped[list[Any]]
    salt: Mapped[str]
    hold: Mapped[str] = mapped_column(default="")
    step: Mapped[int] = mapped_column(default=-1)
    step_since: Mapped[datetime | None]
    generation: Mapped[int | None] = mapped_column(BigInteger)
    guards: Mapped[list[Any]]
    laggards: Mapped[list[Any]]
    left_out: Mapped[list[Any]]
    verdict: Mapped[dict[str, Any] | None]
    trial: Mapped[dict[str, Any] | None]
    evidence: Mapped[dict[str, Any] | None]
    evidence_from: Mapped[str | None]
    controller: Mapped[str | None]
    controller_until: Mapped[datetime | None]
    controller_fence: Mapped[int] = mapped_column(BigInteger, default=0)

    @property
    def subject(self) -> str:
        return f"release:{self.deployment}#{self.number}"


class ReleaseChangeRow(Row):
    """One entry of a release's history."""

    __tablename__ = "release_changes"
    __table_args__ = (Index(None, "release_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"))
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    phase: Mapped[str]
    hold: Mapped[str]
    step: Mapped[int]
    share: Mapped[int]
    cause: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]
    by_command: Mapped[bool]
    generation: Mapped[int | None] = mapped_column(BigInteger)


class ApprovalRow(Row):
    """One person's approval of one arm; never one's own release, never twice.

    `arm_id` None: given through a process of an earlier version, for the arm that the release had then.
    """

    __tablename__ = "approvals"

    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"), primary_key=True)
    by: Mapped[str] = mapped_column(primary_key=True)
    arm_id: Mapped[str | None] = mapped_column(ForeignKey("arms.id"))
    reason: Mapped[str]
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class LookRow(Row):
    """One look of the judge: what it saw, when in its step, and what it concluded: enough to replay.

    `batch`: `statistics.batch.Batch` as deflated JSON; empty when nothing new had come in. `setting`: the
    step's clock and the traffic's pace.
    """

    __tablename__ = "looks"

    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    generation: Mapped[int] = mapped_column(BigInteger)
    step: Mapped[int]
    batch: Mapped[bytes] = mapped_column(LargeBinary)
    setting: Mapped[dict[str, Any]]
    verdict: Mapped[dict[str, Any]]


class RollbackRow(Row):
    """A rollback, and with its nodes the permanent receipt."""

    __tablename__ = "rollbacks"
    __table_args__ = (
        Index(None, "deployment_id", "asked_at"),
        Index(None, "deployment_id", "generation"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id"))
    generation: Mapped[int] = mapped_column(BigInteger)
    asked_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    asked_by: Mapped[str]
    reason: Mapped[str]
    automatic: Mapped[bool]
    release: Mapped[int | None]
    from_arms: Mapped[list[Any]]
    to_arm: Mapped[str] = mapped_column(ForeignKey("arms.id"))
    notes: Mapped[list[Any]]


class RollbackNodeRow(Row):
    """What one node confirmed, by the registry's arrival clock."""

    __tablename__ = "rollback_nodes"

    rollback_id: Mapped[str] = mapped_column(ForeignKey("rollbacks.id"), primary_key=True)
    node_id: Mapped[str] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    name: Mapped[str]
    cold: Mapped[bool] = mapped_column(default=False)
    last_known_version: Mapped[str | None]
    switched_at: Mapped[datetime | None]
    drained_at: Mapped[datetime | None]
