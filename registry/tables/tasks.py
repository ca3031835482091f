"""Tasks: what workers lease, and what they log."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from registry.lifecycle.tasks import TASK_MOVES
from registry.tables.base import Phased, Row


class TaskRow(Phased, Row):
    """`fence` grows with every claim; a write with a lower one is refused. `subject_id`: upload or build.

    `published_at`: when the last wake-up was sent; the sweep sends another when that was long ago.
    """

    __tablename__ = "tasks"
    __table_args__ = (Index("ix_tasks_due", "phase", "lease_until"), Index(None, "subject_id"))
    moves = TASK_MOVES
    subject_kind = "task"

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    queue: Mapped[str]
    subject_id: Mapped[str]
    priority: Mapped[int] = mapped_column(default=0)
    attempt: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(BigInteger, default=0)
    worker: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    published_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    @property
    def subject(self) -> str:
        return f"task:{self.id}"


class TaskLogRow(Row):
    """A chunk of a running task's log, at most 64 KiB, ordered by fence and seq."""

    __tablename__ = "task_logs"

    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    fence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
