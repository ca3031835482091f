"""Data sets."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import Text

from registry.tables.base import Created, Revised, Row


class DatasetNameRow(Row):
    """`last_version` is the counter from which versions get their numbers, in one statement."""

    __tablename__ = "dataset_names"

    name: Mapped[str] = mapped_column(primary_key=True)
    last_version: Mapped[int]


class DatasetRow(Created, Revised, Row):
    """Immutable but for `retain_until`: after it the data set goes, unless something refers to it (None: it
    stays). `digests` lists shards and index for look-ups by blob."""

    __tablename__ = "datasets"
    __table_args__ = (Index("ix_datasets_digests", "digests", postgresql_using="gin"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    form: Mapped[str]
    shards: Mapped[list[Any]]
    index: Mapped[dict[str, Any]]
    rows: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str]
    digests: Mapped[list[str]] = mapped_column(ARRAY(Text))
    provenance: Mapped[str]
    tags: Mapped[dict[str, Any]]
    retain_until: Mapped[datetime | None]
