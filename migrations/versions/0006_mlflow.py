"""mlflow: where versions came from, and files that clients left before they registered"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mlflow_versions",
        sa.Column("version_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("run_link", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("waiting", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fence", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("trouble", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
            name=op.f("fk_mlflow_versions_version_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("version_id", name=op.f("pk_mlflow_versions")),
    )
    op.create_index("ix_mlflow_versions_source", "mlflow_versions", ["source"], postgresql_using="hash")
    op.create_index(
        "ix_mlflow_versions_waiting",
        "mlflow_versions",
        ["version_id"],
        postgresql_where=sa.text("waiting"),
    )
    op.create_table(
        "mlflow_artifacts",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("logged_model", sa.Text(), nullable=True),
        sa.Column("head", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("path", name=op.f("pk_mlflow_artifacts")),
    )
    op.create_index(op.f("ix_mlflow_artifacts_digest"), "mlflow_artifacts", ["digest"])
    op.create_index(
        op.f("ix_mlflow_artifacts_logged_model"),
        "mlflow_artifacts",
        ["logged_model"],
        postgresql_where=sa.text("logged_model IS NOT NULL"),
    )
    op.create_index(
        "ix_mlflow_artifacts_prefix",
        "mlflow_artifacts",
        ["path"],
        postgresql_ops={"path": "text_pattern_ops"},
    )


def downgrade() -> None:
    op.drop_table("mlflow_artifacts")
    op.drop_table("mlflow_versions")
