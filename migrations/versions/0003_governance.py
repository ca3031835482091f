"""governance"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

REFUSE = """
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege', HINT = 'correct an entry by adding another one';
END
$$
"""


def upgrade() -> None:
    op.add_column("tokens", sa.Column("replaces", sa.Text(), nullable=True))
    op.create_index(op.f("ix_tokens_created_by"), "tokens", ["created_by"], unique=False)
    op.create_index(op.f("ix_tokens_replaces"), "tokens", ["replaces"], unique=False)
    op.add_column("idempotency_keys", sa.Column("sealed", sa.LargeBinary(), nullable=True))
    op.add_column("approvals", sa.Column("arm_id", sa.Text(), nullable=True))
    op.create_foreign_key(op.f("fk_approvals_arm_id"), "approvals", "arms", ["arm_id"], ["id"])
    op.execute(
        "UPDATE approvals SET arm_id = releases.arm_id FROM releases WHERE releases.id = approvals.release_id"
    )
    op.create_index(op.f("ix_audit_at_id"), "audit", ["at", "id"], unique=False)
    op.create_index(op.f("ix_audit_action_id"), "audit", ["action", "id"], unique=False)
    op.create_index(
        op.f("ix_routes_deployment_id_created_at_generation"),
        "routes",
        ["deployment_id", "created_at", "generation"],
        unique=False,
    )
    op.create_index(
        op.f("ix_rollbacks_deployment_id_generation"), "rollbacks", ["deployment_id", "generation"], unique=False
    )
    op.execute(REFUSE)
    op.execute(
        "CREATE TRIGGER audit_rows_stay BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()"
    )
    op.execute(
        "CREATE TRIGGER audit_table_stays BEFORE TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER audit_table_stays ON audit")
    op.execute("DROP TRIGGER audit_rows_stay ON audit")
    op.execute("DROP FUNCTION audit_is_append_only()")
    op.drop_index(op.f("ix_rollbacks_deployment_id_generation"), table_name="rollbacks")
    op.drop_index(op.f("ix_routes_deployment_id_created_at_generation"), table_name="routes")
    op.drop_index(op.f("ix_audit_action_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_at_id"), table_name="audit")
    op.drop_constraint(op.f("fk_approvals_arm_id"), "approvals", type_="foreignkey")
    op.drop_column("approvals", "arm_id")
    op.drop_column("idempotency_keys", "sealed")
    op.drop_index(op.f("ix_tokens_replaces"), table_name="tokens")
    op.drop_index(op.f("ix_tokens_created_by"), table_name="tokens")
    op.drop_column("tokens", "replaces")
