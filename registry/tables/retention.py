"""What was deleted and collected: names and keys that are never given again, and when the collector ran."""

from datetime import datetime

from sqlalchemy import Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Row

# Advisory: shared by who chooses a key for verified bytes, exclusive for who gives up unknown objects.
COLLECTOR_LOCK = 0x51195A8


class CollectedRow(Row):
    """A key of the object store that was given up. It is never written again, so that a deletion may come
    late without harm. `deleted_at` None: the object is still to be deleted."""

    __tablename__ = "collected_objects"
    __table_args__ = (
        Index(None, "digest"),
        Index("ix_collected_objects_due", "key", postgresql_where=text("deleted_at IS NULL")),
    )

    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    collected_at: Mapped[datetime] = mapped_column(server_default=func.now())
    deleted_at: Mapped[datetime | None]


class RetiredModelRow(Row):
    """A deleted model: one of the same name goes on counting, so that no version number is given twice."""

    __tablename__ = "retired_models"

    name: Mapped[str] = mapped_column(primary_key=True)
    last_number: Mapped[int]


class ChoreRow(Row):
    """When a chore that one of all processes does was last begun."""

    __tablename__ = "chores"

    name: Mapped[str] = mapped_column(primary_key=True)
    begun_at: Mapped[datetime] = mapped_column(server_default=func.now())
