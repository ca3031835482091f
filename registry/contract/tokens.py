"""Who may do what."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from registry.contract.identity import Environment, Name
from registry.contract.wire import Command, Wire


class Role(StrEnum):
    VIEWER = "viewer"
    PUBLISHER = "publisher"
    BUILDER = "builder"
    RELEASER = "releaser"
    APPROVER = "approver"
    NODE = "node"
    ADMIN = "admin"


class TokenCreate(Command):
    """Empty scopes mean everything."""

    name: str = Field(min_length=1, max_length=128)
    roles: tuple[Role, ...] = Field(min_length=1)
    models: tuple[Name, ...] = ()
    environments: tuple[Environment, ...] = ()
    expires_in_s: int | None = Field(default=None, ge=1)


class SessionCreate(Command):
    """Swaps a token for a session: a secret of its own with the same rights, which ends by itself.

    It never outlives its token: it ends at the token's expiry, and when the token is revoked.
    """

    expires_in_s: int = Field(default=43_200, ge=60, le=604_800)


class Token(Wire):
    """A session is listed as a token too: its id begins with `ses_` and `created_by` is its token's id."""

    id: str
    name: str
    roles: tuple[Role, ...]
    models: tuple[str, ...]
    environments: tuple[str, ...]
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    created_by: str


class TokenSecret(Wire):
    """The secret is shown once."""

    token: Token
    secret: str


class Whoami(Wire):
    name: str
    roles: tuple[Role, ...]
    models: tuple[str, ...]
    environments: tuple[str, ...]
    registry_id: str
