"""search: indexes for filters, orders and the lineage graph

Expressions of indexes are those of the queries, word for word: another spelling is another expression.
"""

from alembic import op
from sqlalchemy import literal_column, text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_versions_created_at_id", "versions", ["created_at", "id"])
    op.create_index("ix_versions_phase_created_at_id", "versions", ["phase", "created_at", "id"])
    op.create_index("ix_versions_digest", "versions", ["digest"])
    op.create_index(
        "ix_versions_tags",
        "versions",
        ["tags"],
        postgresql_using="gin",
        postgresql_ops={"tags": "jsonb_path_ops"},
        postgresql_with={"fastupdate": "off"},
    )
    op.create_index(
        "ix_versions_commit",
        "versions",
        [literal_column("(lineage ->> 'commit')").label("commit")],
        postgresql_ops={"commit": "text_pattern_ops"},
        postgresql_where=text("(lineage ->> 'commit') IS NOT NULL"),
    )
    op.create_index(
        "ix_versions_training_run",
        "versions",
        [text("(lineage ->> 'training_run')")],
        postgresql_where=text("(lineage ->> 'training_run') IS NOT NULL"),
    )
    op.create_index(
        "ix_versions_training_data",
        "versions",
        [text("(lineage #>> '{training_data,name}')"), text("(lineage #>> '{training_data,version}')")],
        postgresql_where=text("(lineage #>> '{training_data,name}') IS NOT NULL"),
    )
    op.create_index(
        "ix_versions_parent",
        "versions",
        ["model", text("(lineage ->> 'parent_version')")],
        postgresql_where=text("(lineage ->> 'parent_version') IS NOT NULL"),
    )
    op.create_index(
        "ix_metrics_value", "metrics", ["dataset", "name", "split", "value", "version_id"]
    )
    for kind in ("calibration", "validation"):
        op.create_index(
            f"ix_builds_{kind}",
            "builds",
            [text(f"(recipe #>> '{{{kind},name}}')"), text(f"(recipe #>> '{{{kind},version}}')")],
            postgresql_where=text(f"(recipe #>> '{{{kind},name}}') IS NOT NULL"),
        )
    op.create_index("ix_releases_arm_id", "releases", ["arm_id"])
    op.execute("ALTER INDEX ix_versions_digests SET (fastupdate = off)")


def downgrade() -> None:
    op.execute("ALTER INDEX ix_versions_digests RESET (fastupdate)")
    op.drop_index("ix_releases_arm_id", "releases")
    for kind in ("validation", "calibration"):
        op.drop_index(f"ix_builds_{kind}", "builds")
    op.drop_index("ix_metrics_value", "metrics")
    for name in ("parent", "training_data", "training_run", "commit", "tags", "digest"):
        op.drop_index(f"ix_versions_{name}", "versions")
    op.drop_index("ix_versions_phase_created_at_id", "versions")
    op.drop_index("ix_versions_created_at_id", "versions")
