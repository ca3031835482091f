"""Events: the outbox that changes write to, the log that is published, and the deliveries to webhooks."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Created, Revised, Row


class Told:
    """What the outbox and the log have in common; see `contract.events.EventOf`."""

    type: Mapped[str]
    subject: Mapped[str]
    deployment: Mapped[str | None]
    environment: Mapped[str | None]
    model: Mapped[str | None]
    actor: Mapped[str]
    data: Mapped[dict[str, Any]]


class OutboxRow(Told, Row):
    """Written in the transaction of the change, and deleted when it is published. `seq` is no public id:
    a transaction that commits late may bring a lower one than readers have seen."""

    __tablename__ = "outbox"

    seq: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class EventRow(Told, Row):
    """Published: numbered by one dispatcher after the commit."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "deployment", "timeline", "number"), Index(None, "at"))

    timeline: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    at: Mapped[datetime]


class DispatchRow(Row):
    """One row: the lease of the process that publishes, the last id given, and what is no longer kept."""

    __tablename__ = "dispatch"
    __table_args__ = (CheckConstraint("singleton", name="singleton"),)

    singleton: Mapped[bool] = mapped_column(primary_key=True, default=True)
    holder: Mapped[str | None]
    held_until: Mapped[datetime | None]
    timeline: Mapped[int] = mapped_column(server_default="1")
    number: Mapped[int] = mapped_column(BigInteger, server_default="0")
    pruned_timeline: Mapped[int] = mapped_column(server_default="1")
    pruned_number: Mapped[int] = mapped_column(BigInteger, server_default="0")


class WatchedRow(Row):
    """A fact that was told already, where nothing but time tells it: a node is lost, all have switched."""

    __tablename__ = "watched"

    subject: Mapped[str] = mapped_column(primary_key=True)
    fact: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class WebhookRow(Created, Revised, Row):
    """`secret` signs, and until `old_secret_until` the one before it does too, so both are kept as they are;
    no representation, log or audit entry holds them."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(primary_key=True)
    url: Mapped[str]
    types: Mapped[list[Any]]
    deployments: Mapped[list[Any]]
    environments: Mapped[list[Any]]
    models: Mapped[list[Any]]
    description: Mapped[str]
    secret: Mapped[str]
    old_secret: Mapped[str | None]
    old_secret_until: Mapped[datetime | None]
    state: Mapped[str]
    state_reason: Mapped[str]


class QueueRow(Row):
    """One webhook × deployment ('' for what concerns none): its deliveries go out one by one, in order.

    `claimed_until` is the claim of one attempt, `fence` grows with each; who holds a lower one writes
    nothing. `failures` counts attempts since the last success.
    """

    __tablename__ = "webhook_queues"

    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True)
    deployment: Mapped[str] = mapped_column(primary_key=True)
    next_at: Mapped[datetime] = mapped_column(server_default=func.now())
    claimed_until: Mapped[datetime | None]
    fence: Mapped[int] = mapped_column(BigInteger, server_default="0")
    failures: Mapped[int] = mapped_column(server_default="0")


class DeliveryRow(Row):
    """One event to one webhook. `since`: when its time to be delivered began."""

    __tablename__ = "deliveries"
    __table_args__ = (
        ForeignKeyConstraint(
            ["timeline", "number"], ["events.timeline", "events.number"], ondelete="CASCADE"
        ),
        Index(
            "ix_deliveries_pending",
            "webhook_id",
            "queue",
            "timeline",
            "number",
            postgresql_where=text("state = 'pending'"),
        ),
        Index(None, "timeline", "number"),
    )

    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True)
    timeline: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    queue: Mapped[str]
    state: Mapped[str]
    since: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default="0")
    status: Mapped[int | None]
    error: Mapped[str] = mapped_column(server_default="")
    last_attempt_at: Mapped[datetime | None]
