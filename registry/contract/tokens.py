"""Who may do what."""

import unicodedata
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from registry.contract.identity import Environment, Name
from registry.contract.wire import Command, Wire

LONGEST_LIFE_S = 100 * 365 * 86_400


class Role(StrEnum):
    VIEWER = "viewer"
    PUBLISHER = "publisher"
    BUILDER = "builder"
    RELEASER = "releaser"
    APPROVER = "approver"
    NODE = "node"
    ADMIN = "admin"


# Letters, marks, numbers, punctuation, symbols and spaces. Invisible and direction-changing characters
# would let one name look like another one.
_SHOWN = frozenset("LMNPS")


def person_name(text: str) -> str:
    """One spelling per name (NFKC, single spaces), so that a name is one person. Raises ValueError."""
    name = " ".join(unicodedata.normalize("NFKC", text).split())
    hidden = [char for char in name if char != " " and unicodedata.category(char)[0] not in _SHOWN]
    if hidden:
        raise ValueError(f"the name has invisible characters: {', '.join(f'U+{ord(c):04X}' for c in hidden)}")
    if not name:
        raise ValueError("the name is empty")
    if name.casefold() == "controller" or name.casefold().startswith("node "):
        raise ValueError("`controller` and names that begin with `node ` are the registry's own")
    return name


class TokenCreate(Command):
    """Empty scopes mean everything. `name` is the person (or the machine) in audit, history and approvals."""

    name: Annotated[str, Field(min_length=1, max_length=128), AfterValidator(person_name)]
    roles: tuple[Role, ...] = Field(min_length=1)
    models: tuple[Name, ...] = ()
    environments: tuple[Environment, ...] = ()
    expires_in_s: int | None = Field(default=None, ge=1, le=LONGEST_LIFE_S)


class TokenRotate(Command):
    """`grace_s`: how long the old secret goes on working. `expires_in_s`: the new token's life; without it
    as long as the old one had when it was made."""

    grace_s: int = Field(default=86_400, ge=0, le=2_592_000)
    expires_in_s: int | None = Field(default=None, ge=1, le=LONGEST_LIFE_S)


class SessionCreate(Command):
    """Swaps a token for a session: a secret of its own with the same rights, which ends by itself.

    It never outlives its token: it ends at the token's expiry, and when the token is revoked.
    """

    expires_in_s: int = Field(default=43_200, ge=60, le=604_800)


class Token(Wire):
    """A session is listed as a token too: its id begins with `ses_` and `created_by` is its token's id.

    `node`: whose own token it is. `replaces`: the token that was rotated into this one.
    """

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
    node: str | None = None
    replaces: str | None = None


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
