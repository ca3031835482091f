"""The journal, the audit trail, and `advance()`: the one way in which a phase moves."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import BaseModel
from sqlalchemy import BigInteger, Identity, Index, func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from registry import outbox
from registry.tables.base import Phased, Row


class JournalRow(Row):
    """One move of one subject: from → to, by which event, by whom and why."""

    __tablename__ = "journal"
    __table_args__ = (Index(None, "subject", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    subject: Mapped[str]
    event: Mapped[str]
    from_phase: Mapped[str]
    to_phase: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]


class AuditRow(Row):
    """One change: who, what, before → after, why, through which door. The database refuses to change it."""

    __tablename__ = "audit"
    __table_args__ = (
        Index(None, "subject", "id"),
        Index(None, "actor", "id"),
        Index(None, "action", "id"),
        Index(None, "at", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    actor: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]
    reason: Mapped[str] = mapped_column(default="")
    via: Mapped[str]
    request_id: Mapped[str | None]


class MoveRefused(Exception):
    """The move table has no such move, or a guard gave a reason. `reasons` reach people word for word."""

    def __init__(self, subject: str, reasons: Iterable[str]) -> None:
        self.subject = subject
        self.reasons = tuple(reasons)
        super().__init__(f"{subject.replace(':', ' ', 1)}: {'; '.join(self.reasons)}")


async def advance(
    session: AsyncSession,
    row: Phased,
    event: Any,
    *,
    actor: str,
    reason: str = "",
    guards: Iterable[str | None] = (),
) -> None:
    """Move `row` by `event`: its table of moves decides where to, `guards` are reasons against (or None).

    The write is a compare-and-set on the row's revision (StaleDataError when someone was first), with a
    journal row and an outbox row in the same transaction. Raises MoveRefused and changes nothing otherwise.
    """
    target = row.moves.target(row.phase, event)
    if target is None:
        raise MoveRefused(row.subject, [row.moves.refusal(row.phase, event)])
    against = [guard for guard in guards if guard]
    if against:
        raise MoveRefused(row.subject, against)
    session.add(
        JournalRow(
            subject=row.subject,
            event=str(event),
            from_phase=row.phase,
            to_phase=str(target),
            actor=actor,
            reason=reason,
        )
    )
    before, row.phase = row.phase, str(target)
    row.phase_reason = reason
    row.phase_since = func.clock_timestamp()
    await session.flush()
    await session.refresh(row, ["phase_since"])
    await outbox.moved(session, row, str(event), before, actor=actor, reason=reason)


def snapshot(value: BaseModel | None) -> dict[str, Any] | None:
    """A resource's representation as audit keeps it."""
    return None if value is None else value.model_dump(mode="json")
