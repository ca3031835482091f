"""Nodes, and what they confirmed and counted."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Revised, Row


class NodeRow(Revised, Row):
    """`report` is the newest `contract.nodes.Report` without its counters, of `reported_at`.

    `last_seen_at` is the last contact of any kind: what was reported may be older, and is then unknown.
    `previous_incarnation` and `incarnation_changes` betray two agents that share one identity: the second
    is a score of how often the previous one came back of late.
    """

    __tablename__ = "nodes"
    __table_args__ = (UniqueConstraint("environment", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    environment: Mapped[str]
    targets: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]]
    hardware: Mapped[dict[str, Any]]
    address: Mapped[str]
    draining: Mapped[bool] = mapped_column(default=False)
    incarnation: Mapped[str | None]
    previous_incarnation: Mapped[str | None]
    incarnation_changes: Mapped[int] = mapped_column(default=0)
    seq: Mapped[int] = mapped_column(BigInteger, default=-1)
    last_seen_at: Mapped[datetime | None]
    reported_at: Mapped[datetime | None]
    report: Mapped[dict[str, Any] | None]
    enrolled_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AppliedRow(Row):
    """When a node switched to a generation of a deployment, and when the arms it left were drained."""

    __tablename__ = "applied"
    __table_args__ = (Index(None, "deployment_id", "generation"),)

    node_id: Mapped[str] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    deployment_id: Mapped[str] = mapped_column(ForeignKey("deployments.id"), primary_key=True)
    timeline: Mapped[int] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    switched_at: Mapped[datetime | None]
    switched_local_ms: Mapped[float | None]
    drained_at: Mapped[datetime | None]
    drained_local_ms: Mapped[float | None]


class CounterRow(Row):
    """The newest cumulative values of one key, beside those that the roll-up has seen.

    A roll-up takes `fields − seen_fields` into windows and looks and sets seen = fields, in one
    transaction: every count is taken exactly once, whatever is repeated or lost on the way.
    `seen_at` is where the unseen span begins (before the first roll-up: the node's report before this key
    began); `gap`: within it the node was silent for more than three report intervals.
    """

    __tablename__ = "counters"
    __table_args__ = (
        Index("ix_counters_unseen", "deployment", "generation", postgresql_where=text("seq > seen_seq")),
    )

    node_id: Mapped[str] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    incarnation: Mapped[str] = mapped_column(primary_key=True)
    worker: Mapped[int] = mapped_column(primary_key=True)
    deployment: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    arm: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger)
    fields: Mapped[dict[str, Any]]
    reported_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    seen_seq: Mapped[int] = mapped_column(BigInteger, default=-1, server_default="-1")
    seen_fields: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    seen_at: Mapped[datetime | None]
    gap: Mapped[bool] = mapped_column(default=False, server_default=text("false"))


class CounterWindowRow(Row):
    """Sums over all nodes of one arm in one window (10 s), by the arrival of the reports."""

    __tablename__ = "counter_windows"
    __table_args__ = (Index(None, "deployment", "start"),)

    deployment: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[datetime] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    arm: Mapped[str] = mapped_column(primary_key=True)
    fields: Mapped[dict[str, Any]]
