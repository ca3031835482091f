"""Who asks, and what they may."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ARRAY, LargeBinary, any_, bindparam, false, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from registry.contract.tokens import Role
from registry.errors import Forbidden, Unauthenticated
from registry.tables.access import TokenRow

LAST_USED_STEP = timedelta(minutes=1)


def new_secret() -> str:
    """A token's secret, to be shown once: 256 random bits."""
    return f"slp_{secrets.token_urlsafe(32)}"


def hash_secret(secret: str) -> bytes:
    """What is kept of a token. Secrets are 256 random bits, so a plain hash can't be searched."""
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True, slots=True)
class Principal:
    """A token's bearer. Empty scopes mean everything; `node_id` binds a node's token to its node."""

    token_id: str
    name: str
    roles: frozenset[Role]
    models: frozenset[str]
    environments: frozenset[str]
    node_id: str | None = None

    def has(self, *roles: Role) -> bool:
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    def require(self, *roles: Role) -> None:
        """Raises Forbidden unless one of `roles` (or admin) is held."""
        if not self.has(*roles):
            wanted = " or ".join(roles)
            raise Forbidden(
                f"{self.name} has the roles {', '.join(sorted(self.roles))}; this needs {wanted}",
                f"ask an admin for a token with the role: slipway token create NAME --role {roles[0]}",
            )

    @property
    def limited(self) -> bool:
        """Whether there is anything that it can't see."""
        return bool(self.models or self.environments)

    @property
    def limits(self) -> str:
        """Half a sentence: `the token ci is limited to the models ants`."""
        limits = []
        if self.models:
            limits.append(f"the models {', '.join(sorted(self.models))}")
        if self.environments:
            limits.append(f"the environments {', '.join(sorted(self.environments))}")
        return f"the token {self.name} is limited to {' and '.join(limits) or 'nothing'}"

    def sees(self, model: str | None = None, environment: str | None = None) -> bool:
        """Whether its scope includes them; what is None says nothing against."""
        return (model is None or not self.models or model in self.models) and (
            environment is None or not self.environments or environment in self.environments
        )

    def require_model(self, model: str) -> None:
        """For a model that a body or a filter names; what a path names is checked at the edge."""
        if not self.sees(model=model):
            raise Forbidden(self.limits, f"use a token whose scope includes {model}")

    def require_environment(self, environment: str) -> None:
        """For an environment that a body or a filter names; what a path names is checked at the edge."""
        if not self.sees(environment=environment):
            raise Forbidden(self.limits, f"use a token whose scope includes {environment}")

    def require_node(self, node_id: str) -> None:
        """A node speaks for itself alone, an admin without limits for any."""
        if self.node_id != node_id and (Role.ADMIN not in self.roles or self.limited):
            raise Forbidden(
                f"the token {self.name} does not belong to node {node_id}",
                "a node uses the token that it was given when it enrolled",
            )


SYSTEM = Principal("", "controller", frozenset({Role.ADMIN}), frozenset(), frozenset())


def secret_of(authorization: str | None) -> str:
    """The secret in an Authorization header. Raises Unauthenticated: missing, or no bearer token."""
    if not authorization:
        raise Unauthenticated(
            "the request has no token",
            "send the header: Authorization: Bearer TOKEN (the command line reads SLIPWAY_TOKEN)",
        )
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated(
            "the Authorization header is not a bearer token", "write it as: Authorization: Bearer TOKEN"
        )
    return secret.strip()


_STALE = func.coalesce(TokenRow.last_used_at < func.now() - LAST_USED_STEP, true())


_WANTED = TokenRow.hash == any_(bindparam("hashes", type_=ARRAY(LargeBinary)))
# Made once: every request sends it.
_FIND = select(
    TokenRow, func.coalesce(TokenRow.expires_at <= func.now(), false()), _STALE.label("stale")
).where(_WANTED)
# Skipping locked rows: whoever holds one is writing the same moment.
_USE = (
    update(TokenRow)
    .where(TokenRow.id.in_(select(TokenRow.id).where(_WANTED, _STALE).with_for_update(skip_locked=True)))
    .values(last_used_at=func.now())
    .execution_options(synchronize_session=False)
)


async def find_tokens(session: AsyncSession, hashes: list[bytes]) -> dict[bytes, tuple[TokenRow, bool]]:
    """By hash: the token, and whether it has expired. Marks them as used, at most once a minute: most
    requests only read."""
    found = (await session.execute(_FIND, {"hashes": hashes})).all()
    if any(stale for _, _, stale in found):
        await session.execute(_USE, {"hashes": hashes})
    return {token.hash: (token, expired) for token, expired, _ in found}


def principal_of(found: tuple[TokenRow, bool] | None) -> Principal:
    """Raises Unauthenticated: unknown (None), revoked, or expired."""
    if found is None:
        raise Unauthenticated(
            "the token is not known here", "check SLIPWAY_TOKEN, or ask an admin for a new one"
        )
    token, expired = found
    if token.revoked_at is not None:
        raise Unauthenticated(
            f"the token {token.name} was revoked at {token.revoked_at:%Y-%m-%dT%H:%M:%SZ}",
            "ask an admin for a new one",
        )
    if expired:
        raise Unauthenticated(
            f"the token {token.name} expired at {token.expires_at:%Y-%m-%dT%H:%M:%SZ}",
            "ask an admin for a new one: slipway token create NAME --role ROLE",
        )
    return Principal(
        token.id,
        token.name,
        frozenset(Role(role) for role in token.roles),
        frozenset(token.models),
        frozenset(token.environments),
        token.node_id,
    )


async def authenticate(session: AsyncSession, authorization: str | None) -> Principal:
    """The principal of a bearer token. Raises Unauthenticated: missing, unknown, revoked, or expired."""
    wanted = hash_secret(secret_of(authorization))
    return principal_of((await find_tokens(session, [wanted])).get(wanted))
