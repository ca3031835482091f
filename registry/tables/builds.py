"""Builds, their steps, engines, and the cache of steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from registry.lifecycle.builds import BUILD_MOVES
from registry.tables.base import Created, Phased, Row


class BuildRow(Created, Phased, Row):
    __tablename__ = "builds"
    __table_args__ = (
        Index(None, "version_id"),
        Index(None, "phase"),
        *(
            Index(
                f"ix_builds_{kind}",
                text(f"(recipe #>> '{{{kind},name}}')"),
                text(f"(recipe #>> '{{{kind},version}}')"),
                postgresql_where=text(f"(recipe #>> '{{{kind},name}}') IS NOT NULL"),
            )
            for kind in ("calibration", "validation")
        ),
    )
    moves = BUILD_MOVES
    subject_kind = "build"

    id: Mapped[str] = mapped_column(primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    recipe: Mapped[dict[str, Any]]
    no_cache: Mapped[bool]
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))

    @property
    def subject(self) -> str:
        return f"build:{self.id}"


class StepRow(Row):
    """The newest report of one step; `engine` is '' for the steps that all engines share."""

    __tablename__ = "steps"

    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    engine: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    report: Mapped[dict[str, Any]]


class EngineRow(Row):
    """`report` is a whole `EngineReport`; what is queried has a column of its own."""

    __tablename__ = "engines"
    __table_args__ = (
        UniqueConstraint("build_id", "precision", "target"),
        Index(None, "version_id", "precision", "target", "created_at"),
        Index(None, "digest"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"))
    precision: Mapped[str]
    target: Mapped[str]
    digest: Mapped[str]
    releasable: Mapped[bool]
    unproven: Mapped[bool]
    report: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CachedStepRow(Row):
    """First writer wins: equal keys mean equal results."""

    __tablename__ = "cached_steps"

    key: Mapped[str] = mapped_column(primary_key=True)
    outputs: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
