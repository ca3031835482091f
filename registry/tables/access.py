"""Tokens and idempotency keys."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Created, Row


class TokenRow(Created, Row):
    """`hash` is the sha256 of the secret, which is not kept. `node_id` binds a node's token to its node.

    A session's `created_by` is the id of its token. `replaces`: the token that was rotated into this one.
    """

    __tablename__ = "tokens"
    __table_args__ = (Index(None, "created_by"), Index(None, "replaces"))

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    roles: Mapped[list[Any]]
    models: Mapped[list[Any]]
    environments: Mapped[list[Any]]
    node_id: Mapped[str | None]
    replaces: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class EnrolmentRow(Created, Row):
    """A one-time token with which one node enrols."""

    __tablename__ = "enrolments"

    id: Mapped[str] = mapped_column(primary_key=True)
    hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    environment: Mapped[str]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    used_by: Mapped[str | None]


class IdempotencyRow(Row):
    """The answer that a write gave under a key, kept for 24 h, written in the write's own transaction.

    `sealed` is that answer, readable with the caller's own secret alone. `status`, `headers` and `body` then
    say "try again" to a process of an earlier version, which does not know `sealed`.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index(None, "created_at"),)

    principal: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    body_hash: Mapped[bytes] = mapped_column(LargeBinary)
    status: Mapped[int]
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    sealed: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
