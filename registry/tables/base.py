"""What all rows share: naming of constraints, identities, creation facts, and the phase of what has one."""

import os
import time
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import DateTime, MetaData, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

from registry.lifecycle.moves import MoveTable

Json = dict[str, Any]


def new_id(prefix: str) -> str:
    """`prefix_` + UUIDv7 as 32 hex digits (RFC 9562): unique anywhere, ordered by time of creation."""
    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | int.from_bytes(os.urandom(10))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return f"{prefix}_{UUID(int=value).hex}"


class Row(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        str: Text,
        Json: JSONB,
        list[Any]: JSONB,
    }


class Created:
    """By the database's clock."""

    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_by: Mapped[str]


class Revised:
    """`revision` is the row's ETag and its compare-and-set: SQLAlchemy bumps and checks it on each write."""

    revision: Mapped[int] = mapped_column(nullable=False, server_default="1")

    @declared_attr.directive
    def __mapper_args__(cls) -> dict[str, Any]:
        return {"version_id_col": cls.__table__.c.revision}  # type: ignore[attr-defined]


class Phased(Revised):
    """What moves through phases. Only `journal.advance` writes these columns."""

    moves: ClassVar[MoveTable[Any, Any]]
    subject_kind: ClassVar[str]

    phase: Mapped[str]
    phase_reason: Mapped[str] = mapped_column(default="")
    phase_since: Mapped[datetime] = mapped_column(server_default=func.now())

    @property
    def subject(self) -> str:
        """Name in journal and audit, such as `version:sentiment@7`."""
        raise NotImplementedError


__all__ = ["Created", "Json", "Phased", "Revised", "Row", "new_id"]
