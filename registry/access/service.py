"""Use cases of tokens."""

import secrets
from datetime import timedelta

from sqlalchemy import func

from registry.access import repository
from registry.contract.pages import Page
from registry.contract.tokens import SessionCreate, Token, TokenCreate, TokenSecret, Whoami
from registry.edge.pages import page
from registry.edge.principal import hash_secret
from registry.edge.unit import Unit
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.tables.access import TokenRow
from registry.tables.base import new_id

PREFIX = "slp_"
SESSION_PREFIX = "ses_"
SECRET_BYTES = 32
LONGEST_S = 100 * 366 * 86_400


async def create(unit: Unit, body: TokenCreate) -> TokenSecret:
    """The secret is in this answer and nowhere else."""
    if body.expires_in_s is not None and body.expires_in_s > LONGEST_S:
        raise Invalid(
            f"expires_in_s is {body.expires_in_s}, more than a century",
            "leave expires_in_s out for a token that does not expire",
        )
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    row = TokenRow(
        id=new_id("tok"),
        name=body.name,
        hash=hash_secret(secret),
        roles=sorted(set(body.roles)),
        models=sorted(set(body.models)),
        environments=sorted(set(body.environments)),
        created_by=unit.actor,
    )
    if body.expires_in_s is not None:
        row.expires_at = func.now() + timedelta(seconds=body.expires_in_s)
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    made = represent(row)
    unit.audit("token.create", f"token:{row.id}", None, made)
    return TokenSecret(token=made, secret=secret)


async def create_session(unit: Unit, body: SessionCreate) -> TokenSecret:
    """A revocable swap of the caller's token, with its name and rights. Raises Forbidden."""
    principal = unit.principal
    if principal.node_id is not None:
        raise Forbidden("a node's token makes no sessions", "sign in with a person's token")
    if principal.token_id.startswith(SESSION_PREFIX):
        raise Forbidden("a session makes no sessions", "sign in with the token itself")
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    row = TokenRow(
        id=new_id(SESSION_PREFIX.rstrip("_")),
        name=principal.name,
        hash=hash_secret(secret),
        roles=sorted(principal.roles),
        models=sorted(principal.models),
        environments=sorted(principal.environments),
        expires_at=await repository.expires_at_most(unit.session, principal.token_id, body.expires_in_s),
        created_by=principal.token_id,
    )
    unit.session.add(row)
    await unit.session.flush()
    await unit.session.refresh(row)
    made = represent(row)
    unit.audit("session.create", f"token:{row.id}", None, made)
    return TokenSecret(token=made, secret=secret)


async def end_session(unit: Unit) -> Token:
    """Ends the caller's own session. Raises Conflict when the caller uses a token."""
    if not unit.principal.token_id.startswith(SESSION_PREFIX):
        raise Conflict("the caller uses a token, not a session", "revoke tokens with slipway token revoke")
    return await revoke(unit, unit.principal.token_id)


def represent(row: TokenRow) -> Token:
    return Token.model_validate(
        {
            "id": row.id,
            "name": row.name,
            "roles": row.roles,
            "models": row.models,
            "environments": row.environments,
            "expires_at": row.expires_at,
            "last_used_at": row.last_used_at,
            "revoked_at": row.revoked_at,
            "created_at": row.created_at,
            "created_by": row.created_by,
        }
    )


async def listing(unit: Unit, after: str | None, limit: int) -> Page[Token]:
    """Oldest first."""
    rows = await repository.tokens(unit.session, after, limit)
    return page(rows, limit, represent, lambda row: row.id)


async def revoke(unit: Unit, token_id: str) -> Token:
    """From now on the token and its sessions are refused. Repeating it changes nothing. Raises NotFound."""
    row = await repository.token(unit.session, token_id)
    if row is None:
        raise NotFound(f"there is no token {token_id}", "GET /v1/tokens lists them")
    before = represent(row)
    if row.revoked_at is not None:
        return before
    await repository.revoke(unit.session, row)
    made = represent(row)
    unit.audit("token.revoke", f"token:{row.id}", before, made)
    return made


def whoami(unit: Unit) -> Whoami:
    principal = unit.principal
    return Whoami(
        name=principal.name,
        roles=tuple(sorted(principal.roles)),
        models=tuple(sorted(principal.models)),
        environments=tuple(sorted(principal.environments)),
        registry_id=unit.identity.registry_id,
    )
