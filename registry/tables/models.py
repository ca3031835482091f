"""Models, versions, metrics, aliases."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, synonym
from sqlalchemy.types import Text

from registry.lifecycle.versions import VERSION_MOVES
from registry.tables.base import Created, Phased, Revised, Row


class ModelRow(Created, Revised, Row):
    """`last_number` is the counter from which versions get their numbers, in one statement."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str]
    description: Mapped[str]
    owner: Mapped[str]
    tags: Mapped[dict[str, Any]]
    last_number: Mapped[int] = mapped_column(default=0)


class VersionRow(Created, Phased, Row):
    """`digest` is that of files + contract; `digests` lists the files' for look-ups by blob."""

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("model", "number"),
        Index(None, "phase"),
        Index("ix_versions_digests", "digests", postgresql_using="gin"),
    )
    moves = VERSION_MOVES
    subject_kind = "version"

    id: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(ForeignKey("models.name"))
    number: Mapped[int]
    framework: Mapped[str]
    files: Mapped[list[Any]]
    digests: Mapped[list[str]] = mapped_column(ARRAY(Text))
    digest: Mapped[str]
    contract: Mapped[dict[str, Any]]
    lineage: Mapped[dict[str, Any]]
    description: Mapped[str]
    tags: Mapped[dict[str, Any]]

    stage = synonym("phase")

    @property
    def ref(self) -> str:
        return f"{self.model}@{self.number}"

    @property
    def subject(self) -> str:
        return f"version:{self.ref}"


class MetricRow(Row):
    """Append-only; the newest of (version, data set, split, name) counts."""

    __tablename__ = "metrics"
    __table_args__ = (Index(None, "version_id", "dataset", "split", "name", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"))
    dataset: Mapped[str]
    dataset_version: Mapped[int]
    split: Mapped[str]
    name: Mapped[str]
    value: Mapped[float]
    n: Mapped[int]
    higher_is_better: Mapped[bool]
    low: Mapped[float | None]
    high: Mapped[float | None]
    measured_by: Mapped[str]
    engine: Mapped[str | None]
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.now())
    recorded_by: Mapped[str]


class AliasRow(Row):
    """A name for a version. Never moves traffic."""

    __tablename__ = "aliases"

    model: Mapped[str] = mapped_column(ForeignKey("models.name"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]
    set_at: Mapped[datetime] = mapped_column(server_default=func.now())
    set_by: Mapped[str]
