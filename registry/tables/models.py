"""Models, versions, metrics, aliases."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    Integer,
    UniqueConstraint,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, column_property, mapped_column, synonym
from sqlalchemy.types import Text

from registry.lifecycle.versions import VERSION_MOVES
from registry.tables.base import Created, Phased, Revised, Row

# Indexed expressions; queries use these very words, or the index is not used.
COMMIT = "lineage ->> 'commit'"
TRAINING_RUN = "lineage ->> 'training_run'"
TRAINING_NAME = "lineage #>> '{training_data,name}'"
TRAINING_VERSION = "lineage #>> '{training_data,version}'"
PARENT = "lineage ->> 'parent_version'"

# Otherwise every search reads up to 4 MB of entries that wait to be sorted in.
AT_ONCE = {"fastupdate": "off"}


class ModelRow(Created, Revised, Row):
    """`last_number` is the counter from which versions get their numbers, in one statement; `newest` is the
    highest number of a version that is there (it may have been deleted)."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str]
    description: Mapped[str]
    owner: Mapped[str]
    tags: Mapped[dict[str, Any]]
    last_number: Mapped[int] = mapped_column(default=0)
    newest: Mapped[int | None] = column_property(
        literal_column("(SELECT max(number) FROM versions WHERE versions.model = models.name)", Integer),
        expire_on_flush=False,
    )


class VersionRow(Created, Phased, Row):
    """`digest` is that of files + contract; `digests` lists the files' for look-ups by blob."""

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("model", "number"),
        Index(None, "phase"),
        Index("ix_versions_digests", "digests", postgresql_using="gin", postgresql_with=AT_ONCE),
        Index(None, "created_at", "id"),
        Index(None, "phase", "created_at", "id"),
        Index(None, "digest"),
        Index(
            "ix_versions_tags",
            "tags",
            postgresql_using="gin",
            postgresql_ops={"tags": "jsonb_path_ops"},
            postgresql_with=AT_ONCE,
        ),
        Index(
            "ix_versions_commit",
            literal_column(f"({COMMIT})").label("commit"),
            postgresql_ops={"commit": "text_pattern_ops"},
            postgresql_where=text(f"({COMMIT}) IS NOT NULL"),
        ),
        Index(
            "ix_versions_training_run",
            text(f"({TRAINING_RUN})"),
            postgresql_where=text(f"({TRAINING_RUN}) IS NOT NULL"),
        ),
        Index(
            "ix_versions_training_data",
            text(f"({TRAINING_NAME})"),
            text(f"({TRAINING_VERSION})"),
            postgresql_where=text(f"({TRAINING_NAME}) IS NOT NULL"),
        ),
        Index(
            "ix_versions_parent",
            "model",
            text(f"({PARENT})"),
            postgresql_where=text(f"({PARENT}) IS NOT NULL"),
        ),
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
    __table_args__ = (
        Index(None, "version_id", "dataset", "split", "name", "id"),
        Index("ix_metrics_value", "dataset", "name", "split", "value", "version_id"),
    )

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
