"""webhooks: the secret before the present one, which signs for a while after a change"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("old_secret", sa.Text(), nullable=True))
    op.add_column("webhooks", sa.Column("old_secret_until", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("webhooks", "old_secret_until")
    op.drop_column("webhooks", "old_secret")
