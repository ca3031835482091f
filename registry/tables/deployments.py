"""Deployments, arms and routes."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Created, Revised, Row


class ArmRow(Row):
    """Immutable; the id is the digest of version, precision, {target: engine digest} and pipeline."""

    __tablename__ = "arms"
    __table_args__ = (Index(None, "version_id", "precision"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    precision: Mapped[str]
    engines: Mapped[dict[str, Any]]
    pipeline: Mapped[str]
    proven: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class DeploymentRow(Created, Revised, Row):
    """`generation` is that of the newest route. `last_good_arm` is moved by completion alone.

    `pin_rollback`: the rollback that pinned; a second press without a target is answered with it.
    """

    __tablename__ = "deployments"
    __table_args__ = (UniqueConstraint("environment", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str]
    name: Mapped[str]
    model: Mapped[str] = mapped_column(ForeignKey("models.name"))
    selector: Mapped[dict[str, Any]]
    unit: Mapped[dict[str, Any]]
    policy: Mapped[dict[str, Any]]
    generation: Mapped[int] = mapped_column(BigInteger, default=0)
    last_release: Mapped[int] = mapped_column(default=0)
    stable_arm: Mapped[str | None] = mapped_column(ForeignKey("arms.id"))
    last_good_arm: Mapped[str | None] = mapped_column(ForeignKey("arms.id"))
    pinned: Mapped[bool] = mapped_column(default=False)
    pin_reason: Mapped[str] = mapped_column(default="")
    pinned_by: Mapped[str | None]
    pin_rollback: Mapped[str | None]

    @property
    def ref(self) -> str:
        return f"{self.environment}/{self.name}"

    @property
    def subject(self) -> str:
        return f"deployment:{self.ref}"


class RouteRow(Row):
    """Append-only: one generation of a deployment's share table. `body` is a `contract.routes.Route`."""

    __tablename__ = "routes"
    __table_args__ = (Index(None, "deployment_id", "created_at", "generation"),)

    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id"), primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    timeline: Mapped[int]
    cause: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]
    release: Mapped[int | None]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
