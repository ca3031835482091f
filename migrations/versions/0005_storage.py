"""storage"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("blobs", sa.Column("promised_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("blobs", sa.Column("key", sa.Text(), nullable=True))
    op.add_column("datasets", sa.Column("retain_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("datasets", sa.Column("revision", sa.Integer(), server_default="1", nullable=False))
    op.create_table(
        "collected_objects",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("collected_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_collected_objects")),
    )
    op.create_index(op.f("ix_collected_objects_digest"), "collected_objects", ["digest"], unique=False)
    op.create_index(
        "ix_collected_objects_due",
        "collected_objects",
        ["key"],
        unique=False,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "retired_models",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_retired_models")),
    )
    op.create_table(
        "chores",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_chores")),
    )


def downgrade() -> None:
    """Blobs whose object has a key of its own are unknown to the earlier state: their rows go."""
    op.execute("DELETE FROM blobs WHERE key IS NOT NULL")
    op.drop_table("chores")
    op.drop_table("retired_models")
    op.drop_table("collected_objects")
    op.drop_column("datasets", "revision")
    op.drop_column("datasets", "retain_until")
    op.drop_column("blobs", "key")
    op.drop_column("blobs", "promised_at")
