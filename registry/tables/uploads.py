"""Blobs, and the uploads that bring them."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from registry.lifecycle.uploads import UPLOAD_MOVES
from registry.tables.base import Created, Phased, Row


class BlobRow(Row):
    """A verified object under its content-addressed key. The row decides, not the store.

    `key` None: the digest itself. `promised_at`: when someone was last told that these bytes are here and
    need not be sent.
    """

    __tablename__ = "blobs"

    digest: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    verified_at: Mapped[datetime] = mapped_column(server_default=func.now())
    promised_at: Mapped[datetime | None]
    key: Mapped[str | None]

    @property
    def object_key(self) -> str:
        return self.key or self.digest


class UploadRow(Created, Phased, Row):
    """A multipart upload into `staging_key`; `store_id` is the store's own id of it, empty for a small file,
    which is sent in one piece."""

    __tablename__ = "uploads"
    __table_args__ = (Index(None, "digest"), Index(None, "phase"))
    moves = UPLOAD_MOVES
    subject_kind = "upload"

    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    part_size: Mapped[int] = mapped_column(BigInteger)
    staging_key: Mapped[str]
    store_id: Mapped[str]
    expires_at: Mapped[datetime]
    task_id: Mapped[str | None] = mapped_column(ForeignKey("tasks.id"))

    @property
    def in_one_piece(self) -> bool:
        return not self.store_id

    @property
    def subject(self) -> str:
        return f"upload:{self.id}"
