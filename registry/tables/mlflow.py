"""What MLflow's clients say of versions and we don't, and the files that they leave before they register."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Created, Row


class MlflowVersionRow(Row):
    """A version that came through MLflow's API, and where it came from.

    `waiting`: its files are still to be copied from `source`; whoever copies holds the lease until
    `lease_until`, by the database's clock, and proves it by `fence`.
    """

    __tablename__ = "mlflow_versions"
    __table_args__ = (
        Index("ix_mlflow_versions_source", "source", postgresql_using="hash"),
        Index("ix_mlflow_versions_waiting", "version_id", postgresql_where=text("waiting")),
    )

    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id", ondelete="CASCADE"), primary_key=True)
    source: Mapped[str]
    run_link: Mapped[str]
    model_id: Mapped[str]
    waiting: Mapped[bool]
    attempt: Mapped[int] = mapped_column(default=0, server_default="0")
    fence: Mapped[int] = mapped_column(default=0, server_default="0")
    lease_until: Mapped[datetime | None]
    trouble: Mapped[str] = mapped_column(default="", server_default="")


class MlflowArtifactRow(Created, Row):
    """A file that a client left under `path`; its bytes are the upload or the blob of `digest`.

    `logged_model`: MLflow's id of the model that it belongs to, where the path names one. `head`: the text
    of a small file that says what the model is.
    """

    __tablename__ = "mlflow_artifacts"
    __table_args__ = (
        Index(None, "digest"),
        Index(None, "logged_model", postgresql_where=text("logged_model IS NOT NULL")),
        Index("ix_mlflow_artifacts_prefix", "path", postgresql_ops={"path": "text_pattern_ops"}),
    )

    path: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    logged_model: Mapped[str | None]
    head: Mapped[str | None]
