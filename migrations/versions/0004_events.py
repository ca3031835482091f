"""events"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

JSONB = postgresql.JSONB(astext_type=sa.Text())
MOMENT = sa.DateTime(timezone=True)


def _told() -> list[sa.Column]:
    return [
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=True),
        sa.Column("environment", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("data", JSONB, nullable=False),
    ]


def upgrade() -> None:
    _log()
    _dispatch()
    _webhooks()
    _deliveries()


def _log() -> None:
    """What was told, and what was published of it."""
    op.create_table(
        "outbox",
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", MOMENT, server_default=sa.text("clock_timestamp()"), nullable=False),
        *_told(),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_outbox")),
    )
    op.create_table(
        "events",
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        *_told(),
        sa.PrimaryKeyConstraint("timeline", "number", name=op.f("pk_events")),
    )
    op.create_index(
        op.f("ix_events_deployment_timeline_number"), "events", ["deployment", "timeline", "number"]
    )
    op.create_index(op.f("ix_events_at"), "events", ["at"])


def _dispatch() -> None:
    """Who publishes, how far, and what was seen by looking."""
    op.create_table(
        "dispatch",
        sa.Column("singleton", sa.Boolean(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", MOMENT, nullable=True),
        sa.Column("timeline", sa.Integer(), server_default="1", nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pruned_timeline", sa.Integer(), server_default="1", nullable=False),
        sa.Column("pruned_number", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("singleton", name=op.f("ck_dispatch_singleton")),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_dispatch")),
    )
    op.execute("INSERT INTO dispatch (singleton) VALUES (true)")
    op.create_table(
        "watched",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("fact", sa.Text(), nullable=False),
        sa.Column("at", MOMENT, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("subject", "fact", name=op.f("pk_watched")),
    )


def _webhooks() -> None:
    """Who is told, and how far each queue is."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("types", JSONB, nullable=False),
        sa.Column("deployments", JSONB, nullable=False),
        sa.Column("environments", JSONB, nullable=False),
        sa.Column("models", JSONB, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_table(
        "webhook_queues",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("next_at", MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("claimed_until", MOMENT, nullable=True),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_queues_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("webhook_id", "deployment", name=op.f("pk_webhook_queues")),
    )


def _deliveries() -> None:
    """What each webhook was told."""
    op.create_table(
        "deliveries",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("last_attempt_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["timeline", "number"],
            ["events.timeline", "events.number"],
            name=op.f("fk_deliveries_timeline_number"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_deliveries_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("webhook_id", "timeline", "number", name=op.f("pk_deliveries")),
    )
    op.create_index(
        "ix_deliveries_pending",
        "deliveries",
        ["webhook_id", "queue", "timeline", "number"],
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(op.f("ix_deliveries_timeline_number"), "deliveries", ["timeline", "number"])


def downgrade() -> None:
    for table in ("deliveries", "webhook_queues", "webhooks", "watched", "dispatch", "events", "outbox"):
        op.drop_table(table)
